/** Roots and proofs of the receipt tree (RFC 6962), from leaf hashes and the few stored inner nodes. */
import { CompactRange, nodeHash } from './verifier/merkle.ts'

type Awaitable<T> = T | Promise<T>

export interface TreeReader {
  /** Returns the leaf hashes from `from` up to, but not including, `to`. */
  leaves(from: number, to: number): Awaitable<readonly Uint8Array[]>
  /**
   * Returns the stored hash of the complete subtree over leaves [index · 2^level, (index + 1) · 2^level), if there is
   * one.
   */
  node(level: number, index: number): Awaitable<Uint8Array | undefined>
}

export interface TreeNode {
  readonly level: number
  readonly index: number
  readonly hash: Buffer
}

/** One node is stored per 256 leaves, and one per 256 of those. A proof reads under 256 hashes of each kind. */
const STORED_LEVELS = [8, 16, 24] as const

export async function treeRoot(reader: TreeReader, size: number): Promise<Buffer> {
  return size === 0 ? new CompactRange().root() : hashOf(reader, 0, size)
}

/** Returns the siblings from leaf `index` up to the root of the tree of `size` leaves. */
export async function inclusionProof(reader: TreeReader, index: number, size: number): Promise<Buffer[]> {
  if (index < 0 || index >= size) throw new RangeError(`leaf ${index} is not in a tree of ${size}`)
  const hashes: Buffer[] = []
  let [from, to] = [0, size]
  while (to - from > 1) {
    const middle = split(from, to)
    if (index < middle) {
      hashes.push(await hashOf(reader, middle, to))
      to = middle
    } else {
      hashes.push(await hashOf(reader, from, middle))
      from = middle
    }
  }
  return hashes.reverse()
}

/** Returns the nodes that prove that the tree of `to` leaves begins with the tree of `from` leaves. */
export async function consistencyProof(reader: TreeReader, from: number, to: number): Promise<Buffer[]> {
  if (from < 0 || from > to) throw new RangeError(`a tree of ${to} does not continue one of ${from}`)
  if (from === 0 || from === to) return []
  const hashes: Buffer[] = []
  let [left, right] = [0, to]
  while (right !== from) {
    const middle = split(left, right)
    if (from <= middle) {
      hashes.push(await hashOf(reader, middle, right))
      right = middle
    } else {
      hashes.push(await hashOf(reader, left, middle))
      left = middle
    }
  }
  // If the old tree is a complete subtree at the left edge, the verifier already has its root.
  if (left !== 0) hashes.push(await hashOf(reader, left, right))
  return hashes.reverse()
}

/** Returns the nodes that become complete when the tree grows from `oldSize` to `newSize` leaves, to store them. */
export async function completeNodes(
  reader: TreeReader,
  oldSize: number,
  newSize: number,
): Promise<TreeNode[]> {
  const nodes: TreeNode[] = []
  const fresh = new Map<string, Buffer>()
  const withFresh: TreeReader = {
    leaves: (from, to) => reader.leaves(from, to),
    node: (level, index) => fresh.get(`${level}/${index}`) ?? reader.node(level, index),
  }
  for (const level of STORED_LEVELS) {
    const width = 2 ** level
    for (let index = Math.floor(oldSize / width); index < Math.floor(newSize / width); index++) {
      const hash = await completeHash(withFresh, level, index)
      fresh.set(`${level}/${index}`, hash)
      nodes.push({ level, index, hash })
    }
  }
  return nodes
}

/** RFC 6962 splits a range at the largest power of two below its length. */
function split(from: number, to: number): number {
  let width = 1
  while (width * 2 < to - from) width *= 2
  return from + width
}

async function hashOf(reader: TreeReader, from: number, to: number): Promise<Buffer> {
  const length = to - from
  const level = Math.log2(length)
  if (Number.isInteger(level)) return completeHash(reader, level, from / length)
  const middle = split(from, to)
  return nodeHash(await hashOf(reader, from, middle), await hashOf(reader, middle, to))
}

async function completeHash(reader: TreeReader, level: number, index: number): Promise<Buffer> {
  const isStored = STORED_LEVELS.some((stored) => stored === level)
  const stored = isStored ? await reader.node(level, index) : undefined
  if (stored) return asBuffer(stored)
  if (level > 8) {
    const left = await completeHash(reader, level - 1, index * 2)
    return nodeHash(left, await completeHash(reader, level - 1, index * 2 + 1))
  }
  const width = 2 ** level
  const range = new CompactRange()
  for (const leaf of await reader.leaves(index * width, (index + 1) * width)) range.append(asBuffer(leaf))
  return range.root()
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
