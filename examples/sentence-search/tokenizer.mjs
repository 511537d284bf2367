// Unigram (SentencePiece) tokenizer: splits a text into those pieces of a vocabulary whose scores, the
// logarithms of their probabilities, have the largest sum (Viterbi).
//
// It gives the same tokens as the tokenizer the weights are published with, and so keeps what is odd in
// them: pieces with a colon have no score and count as 0, and ":30" has the score 30.

/**
 * Pieces and their scores; the index of an entry is its token id.
 * @typedef {readonly (readonly [text: string, score: number | null])[]} Vocabulary
 */

/** @typedef {{ id: number, score: number }} Piece */

/**
 * A node of the prefix tree of all pieces, with the piece that ends here, if one does.
 * @typedef {{ piece: Piece | undefined, children: Map<string, TrieNode> }} TrieNode
 */

/**
 * The best split of the text up to one position: its score, its last piece, and the split before that.
 * @typedef {{ score: number, id: number, previous: Split | undefined }} Split
 */

/**
 * Stands for a symbol that begins no piece.
 * @type {Piece}
 */
const UNKNOWN = { id: 0, score: 0 };

/** The first ids stand for no text: unknown, begin, end, and three spare ones. */
const RESERVED_IDS = 6;

/** Written for a space, and before the first word. */
const WORD_MARK = "\u2581";

/**
 * @param {Vocabulary} vocabulary
 * @returns {(text: string) => number[]} from a text to its token ids
 */
export function createTokenizer(vocabulary) {
  const trie = buildTrie(vocabulary);

  return function tokenize(text) {
    const symbols = toSymbols(text);
    /** @returns {Split} */
    const noSplit = () => ({ score: 0, id: UNKNOWN.id, previous: undefined });
    const splits = Array.from({ length: symbols.length + 1 }, noSplit);
    splits.forEach((split, start) => {
      let known = false;
      /** @type {TrieNode | undefined} */
      let node = trie;
      for (let end = start; node; end++) {
        if (node.piece) {
          extend(split, node.piece, splits[end]);
          known = true;
        }
        node = node.children.get(symbols[end] ?? "");
      }
      if (!known) extend(split, UNKNOWN, splits[start + 1]);
    });
    return readBack(splits.at(-1));
  };
}

/**
 * Offers `split` and `piece` as the best split up to where the piece ends.
 * @param {Split} split
 * @param {Piece} piece
 * @param {Split | undefined} end
 */
function extend(split, piece, end) {
  const score = split.score + piece.score;
  // A score of 0 also means that nothing was offered yet. Of equals the last, with the shorter piece, wins.
  if (end && (end.score === 0 || score >= end.score)) {
    end.score = score;
    end.id = piece.id;
    end.previous = split;
  }
}

/**
 * The tokens of a split, first to last; a run of unknown symbols is one token.
 * @param {Split | undefined} split
 */
function readBack(split) {
  /** @type {number[]} */
  const tokens = [];
  for (; split?.previous; split = split.previous) {
    if (split.id !== UNKNOWN.id || tokens.at(-1) !== UNKNOWN.id) tokens.push(split.id);
  }
  return tokens.reverse();
}

/**
 * @param {string} text
 * @returns {string[]} the code points of the normalised text; none for an empty text
 */
function toSymbols(text) {
  const normalized = text.normalize("NFKC");
  return normalized === "" ? [] : [...(WORD_MARK + normalized.replaceAll(" ", WORD_MARK))];
}

/**
 * @param {Vocabulary} vocabulary
 * @returns {TrieNode}
 */
function buildTrie(vocabulary) {
  /** @returns {TrieNode} */
  const emptyNode = () => ({ piece: undefined, children: new Map() });
  const root = emptyNode();
  vocabulary.forEach(([text, score], id) => {
    if (id < RESERVED_IDS) return;
    let node = root;
    for (const symbol of text) {
      const child = node.children.get(symbol) ?? emptyNode();
      node.children.set(symbol, child);
      node = child;
    }
    node.piece = { id, score: score ?? 0 }; // of equal pieces the last one counts
  });
  return root;
}
