// Writes ONNX models of a node or a few: just enough of protocol buffers for it, with the field numbers of onnx.proto.

/** A message: field numbers and what they hold. */
type Message = ReadonlyArray<readonly [field: number, value: number | string | Uint8Array | Message]>;

export interface Node {
  readonly type: string;
  readonly inputs: readonly string[];
  readonly output: string;
  readonly attributes?: Readonly<Record<string, number | readonly number[]>>;
}

export type Shapes = Readonly<Record<string, readonly number[]>>;

export interface Graph {
  readonly nodes: readonly Node[];
  readonly inputs: Shapes;
  readonly outputs: Shapes;
  readonly constants?: Readonly<Record<string, { data: Float32Array; shape: readonly number[] }>>;
}

const IR_VERSION = 10;
const OPSET_VERSION = 23;
const FLOAT = 1;
const ATTRIBUTE_INT = 2;
const ATTRIBUTE_INTS = 7;

/** The bytes of a model of float32 tensors. */
export function onnxModel({ nodes, inputs, outputs, constants = {} }: Graph): Uint8Array {
  return encode([
    [1, IR_VERSION],
    [
      7,
      [
        ...nodes.map((node) => [1, nodeMessage(node)] as const),
        [2, "graph"],
        ...Object.entries(constants).map(([name, tensor]) => [5, tensorMessage(name, tensor)] as const),
        ...Object.entries(inputs).map(([name, shape]) => [11, valueMessage(name, shape)] as const),
        ...Object.entries(outputs).map(([name, shape]) => [12, valueMessage(name, shape)] as const),
      ],
    ],
    [8, [[2, OPSET_VERSION]]],
  ]);
}

function nodeMessage({ type, inputs, output, attributes = {} }: Node): Message {
  return [
    ...inputs.map((name) => [1, name] as const),
    [2, output],
    [3, `${type} to ${output}`],
    [4, type],
    ...Object.entries(attributes).map(([name, value]) => [5, attributeMessage(name, value)] as const),
  ];
}

function attributeMessage(name: string, value: number | readonly number[]): Message {
  if (typeof value === "number")
    return [
      [1, name],
      [3, value],
      [20, ATTRIBUTE_INT],
    ];
  return [[1, name], ...value.map((item) => [8, item] as const), [20, ATTRIBUTE_INTS]];
}

function tensorMessage(
  name: string,
  { data, shape }: { data: Float32Array; shape: readonly number[] },
): Message {
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return [...shape.map((length) => [1, length] as const), [2, FLOAT], [8, name], [9, raw]];
}

function valueMessage(name: string, shape: readonly number[]): Message {
  const dimensions = shape.map((length) => [1, [[1, length]]] as const);
  return [
    [1, name],
    [
      2,
      [
        [
          1,
          [
            [1, FLOAT],
            [2, dimensions],
          ],
        ],
      ],
    ],
  ];
}

/** A whole number is a varint; text, bytes and messages follow their length. */
function encode(message: Message): Uint8Array {
  const parts = message.flatMap(([field, value]): Uint8Array[] => {
    if (typeof value === "number") return [varint(field << 3), varint(value)];
    const body =
      typeof value === "string" ? Buffer.from(value) : value instanceof Uint8Array ? value : encode(value);
    return [varint((field << 3) | 2), varint(body.length), body];
  });
  return Buffer.concat(parts);
}

/** Seven bits a byte, the lowest first; the eighth bit says that more follow. */
function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest >>>= 7) bytes.push((rest & 127) | 128);
  bytes.push(rest);
  return Uint8Array.from(bytes);
}
