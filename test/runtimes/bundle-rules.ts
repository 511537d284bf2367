import { builtinModules } from "node:module";
import { parseAst } from "vite";

type Node = { type: string; start: number; [key: string]: unknown };

const builtins = new Set(builtinModules);

/**
 * What a self-contained bundle must not hold, found in its syntax tree: dynamic import, import.meta,
 * top-level await, and any import, export-from or require of another module. The text is parsed,
 * since strings and comments may hold such words. Returns one line per finding.
 */
export function forbiddenSyntax(code: string): string[] {
  const found: string[] = [];
  visit(parseAst(code, { sourceType: "module" }) as unknown as Node, false);
  return found;

  function visit(node: Node, isInFunction: boolean): void {
    const finding = forbidden(node, isInFunction);
    if (finding !== undefined)
      found.push(`${finding} at ${node.start}: ${code.slice(node.start, node.start + 60)}`);
    const isFunction = /Function/.test(node.type);
    for (const child of children(node)) visit(child, isInFunction || isFunction);
  }
}

function forbidden(node: Node, isInFunction: boolean): string | undefined {
  switch (node.type) {
    case "ImportExpression":
      return "import()";
    case "MetaProperty":
      return (node.meta as { name: string }).name === "import" ? "import.meta" : undefined;
    case "AwaitExpression":
      return isInFunction ? undefined : "top-level await";
    case "ForOfStatement":
      return node.await === true && !isInFunction ? "top-level await" : undefined;
    case "ImportDeclaration":
    case "ExportNamedDeclaration":
    case "ExportAllDeclaration":
      return moduleFinding(node.source);
    case "CallExpression":
      return isRequire(node.callee) ? moduleFinding((node.arguments as Node[])[0]) : undefined;
    default:
      return undefined;
  }
}

/** esbuild calls its stand-in for require `__require`. */
function isRequire(callee: unknown): boolean {
  return /^_*require$/.test((callee as { name?: string }).name ?? "");
}

function moduleFinding(source: unknown): string | undefined {
  if (source === null || source === undefined) return undefined;
  const name = String((source as { value?: unknown }).value);
  return name.startsWith("node:") || builtins.has(name) ? `Node built-in "${name}"` : `module "${name}"`;
}

function* children(node: Node): Generator<Node> {
  for (const value of Object.values(node)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && typeof item === "object" && typeof item.type === "string") yield item as Node;
    }
  }
}
