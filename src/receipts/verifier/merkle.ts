/** 1. The Merkle tree. The first byte distinguishes leaves from nodes: neither can pass for the other. */
import * as crypto from 'node:crypto'

// Node before 20.12 has no one-shot hash. A Latin-1 string is twice as fast as a separate Buffer.
export const sha256Digest: (bytes: Buffer) => Buffer =
  typeof crypto.hash === 'function'
    ? (bytes) => Buffer.from(crypto.hash('sha256', bytes, 'binary'), 'latin1')
    : (bytes) => crypto.createHash('sha256').update(bytes).digest()

const LEAF = Buffer.of(0)
const NODE = Buffer.of(1)

export function leafHash(line: Buffer): Buffer {
  return sha256Digest(Buffer.concat([LEAF, line]))
}

export function nodeHash(left: Buffer, right: Buffer): Buffer {
  return sha256Digest(Buffer.concat([NODE, left, right]))
}

/** A tree that only grows. It stores the roots of its complete subtrees, one for each 1 bit of its size. */
export class CompactRange {
  size = 0
  #peaks: Buffer[] = []

  append(leaf: Buffer): void {
    let hash = leaf
    for (let n = this.size; n % 2 === 1; n = (n - 1) / 2) hash = nodeHash(this.#peaks.pop()!, hash)
    this.#peaks.push(hash)
    this.size++
  }

  root(): Buffer {
    if (this.size === 0) return sha256Digest(Buffer.alloc(0))
    return this.#peaks.reduceRight((right, left) => nodeHash(left, right))
  }

  matches(checkpoint: { size: number; root: Buffer }): boolean {
    return this.size === checkpoint.size && this.root().equals(checkpoint.root)
  }

  /** Returns a copy with the leaves of `more` appended. */
  copy(more: readonly Buffer[] = []): CompactRange {
    const copy = new CompactRange()
    copy.size = this.size
    copy.#peaks = [...this.#peaks]
    for (const leaf of more) copy.append(leaf)
    return copy
  }
}

/** Returns where RFC 6962 splits a tree of `size` leaves: the largest power of two below `size` goes left. */
function leftSize(size: number): number {
  let left = 1
  while (left * 2 < size) left *= 2
  return left
}

/**
 * Returns whether `leaf` is number `index` in the tree of `size` leaves with `root`. `hashes` are its siblings, lowest
 * first.
 */
export function verifyInclusion(
  leaf: Buffer,
  index: number,
  size: number,
  hashes: readonly Buffer[],
  root: Buffer,
) {
  const path = [...hashes]
  const climb = (i: number, n: number): Buffer | undefined => {
    if (n === 1) return path.length === 0 ? leaf : undefined
    const [left, sibling] = [leftSize(n), path.pop()]
    const below = sibling && (i < left ? climb(i, left) : climb(i - left, n - left))
    return below && (i < left ? nodeHash(below, sibling) : nodeHash(sibling, below))
  }
  return leaf.length === 32 && index >= 0 && index < size && climb(index, size)?.equals(root) === true
}

/**
 * Returns whether the tree of `size2` begins with the tree of `size1`. An empty first tree proves nothing, so it
 * returns false.
 */
export function verifyConsistency(
  size1: number,
  root1: Buffer,
  size2: number,
  root2: Buffer,
  hashes: readonly Buffer[],
) {
  const path = [...hashes]
  // Rebuilds both roots together: [of the old tree, of the new tree].
  const climb = (old: number, n: number, isLeftEdge: boolean): [Buffer, Buffer] | undefined => {
    if (old === n) {
      const shared = isLeftEdge ? root1 : path.pop()
      return shared && path.length === 0 ? [shared, shared] : undefined
    }
    const [left, sibling] = [leftSize(n), path.pop()]
    const below = sibling && (old <= left ? climb(old, left, isLeftEdge) : climb(old - left, n - left, false))
    if (!below) return undefined
    if (old <= left) return [below[0], nodeHash(below[1], sibling)]
    return [nodeHash(sibling, below[0]), nodeHash(sibling, below[1])]
  }
  const roots = size1 > 0 && size1 <= size2 ? climb(size1, size2, true) : undefined
  return roots ? roots[0].equals(root1) && roots[1].equals(root2) : false
}
