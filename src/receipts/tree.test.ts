import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { completeNodes, consistencyProof, inclusionProof, type TreeReader, treeRoot } from './tree.ts'
import { CompactRange, verifyConsistency, verifyInclusion } from './verifier/merkle.ts'

const sha256 = (...parts: Buffer[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
const leafOf = (n: number) => sha256(Buffer.from(`leaf ${n}`))
const LEAVES = Array.from({ length: 600 }, (_, n) => leafOf(n))

// RFC 6962, section 2.1, implemented literally and therefore slowly.
const splitOf = (n: number) => 2 ** Math.ceil(Math.log2(n) - 1)
function naiveRoot(leaves: Buffer[]): Buffer {
  if (leaves.length === 0) return sha256()
  if (leaves.length === 1) return leaves[0]!
  const k = splitOf(leaves.length)
  return sha256(Buffer.of(1), naiveRoot(leaves.slice(0, k)), naiveRoot(leaves.slice(k)))
}
function naivePath(m: number, leaves: Buffer[]): Buffer[] {
  if (leaves.length === 1) return []
  const k = splitOf(leaves.length)
  if (m < k) return [...naivePath(m, leaves.slice(0, k)), naiveRoot(leaves.slice(k))]
  return [...naivePath(m - k, leaves.slice(k)), naiveRoot(leaves.slice(0, k))]
}
function naiveSubproof(m: number, leaves: Buffer[], isWhole: boolean): Buffer[] {
  if (m === leaves.length) return isWhole ? [] : [naiveRoot(leaves)]
  const k = splitOf(leaves.length)
  if (m <= k) return [...naiveSubproof(m, leaves.slice(0, k), isWhole), naiveRoot(leaves.slice(k))]
  return [...naiveSubproof(m - k, leaves.slice(k), false), naiveRoot(leaves.slice(0, k))]
}

/** A tree in memory that stores the result of `completeNodes` and counts reads. */
class StoredTree implements TreeReader {
  size = 0
  leavesRead = 0
  nodesRead = 0
  readonly #nodes = new Map<string, Buffer>()

  async growTo(size: number): Promise<void> {
    for (const { level, index, hash } of await completeNodes(this, this.size, size))
      this.#nodes.set(`${level}/${index}`, hash)
    this.size = size
  }

  leaves(from: number, to: number): Buffer[] {
    this.leavesRead += to - from
    return Array.from({ length: to - from }, (_, i) => leafOf(from + i))
  }

  node(level: number, index: number): Buffer | undefined {
    this.nodesRead++
    return this.#nodes.get(`${level}/${index}`)
  }
}

const withoutNodes: TreeReader = { leaves: (from, to) => LEAVES.slice(from, to), node: () => undefined }

describe('the receipt tree', () => {
  const sizes = fc.integer({ min: 1, max: 600 })

  it('has the root that RFC 6962 defines, appended or read', async () => {
    for (const size of [0, 1, 2, 3, 7, 8, 255, 256, 257, 600]) {
      const range = new CompactRange()
      for (const leaf of LEAVES.slice(0, size)) range.append(leaf)
      const root = naiveRoot(LEAVES.slice(0, size))
      expect(range.root()).toEqual(root)
      expect(await treeRoot(withoutNodes, size)).toEqual(root)
    }
  })

  it('creates the inclusion proofs of RFC 6962, which verify only at their position', async () => {
    const cases = sizes.chain((size) =>
      fc.tuple(fc.integer({ min: 0, max: size - 1 }), fc.constant(size), fc.nat(size)),
    )
    await fc.assert(
      fc.asyncProperty(cases, async ([index, size, other]) => {
        const proof = await inclusionProof(withoutNodes, index, size)
        const root = naiveRoot(LEAVES.slice(0, size))
        expect(proof).toEqual(naivePath(index, LEAVES.slice(0, size)))
        expect(verifyInclusion(LEAVES[index]!, index, size, proof, root)).toBe(true)
        if (other !== index) expect(verifyInclusion(LEAVES[index]!, other, size, proof, root)).toBe(false)
      }),
      { numRuns: 150 },
    )
  })

  it('creates the consistency proofs of RFC 6962, which verify only for their sizes', async () => {
    const cases = sizes.chain((to) => fc.tuple(fc.integer({ min: 1, max: to }), fc.constant(to)))
    await fc.assert(
      fc.asyncProperty(cases, async ([from, to]) => {
        const proof = await consistencyProof(withoutNodes, from, to)
        const [old, grown] = [naiveRoot(LEAVES.slice(0, from)), naiveRoot(LEAVES.slice(0, to))]
        expect(proof).toEqual(naiveSubproof(from, LEAVES.slice(0, to), true))
        expect(verifyConsistency(from, old, to, grown, proof)).toBe(true)
        expect(verifyConsistency(from, old, to, old, proof)).toBe(from === to)
        expect(verifyConsistency(from, sha256(old), to, grown, proof)).toBe(false)
      }),
      { numRuns: 150 },
    )
  })

  it('reads few leaves for a proof in a large tree after its nodes are stored', async () => {
    const tree = new StoredTree()
    for (const size of [100, 256, 40_000, 65_535, 65_536, 70_001]) await tree.growTo(size)
    const root = await treeRoot(tree, tree.size)
    for (const index of [0, 255, 256, 40_123, 65_535, 65_536, 70_000]) {
      tree.leavesRead = tree.nodesRead = 0
      const proof = await inclusionProof(tree, index, tree.size)
      expect(verifyInclusion(leafOf(index), index, tree.size, proof, root)).toBe(true)
      expect(tree.leavesRead).toBeLessThanOrEqual(2 * 256)
      expect(tree.nodesRead).toBeLessThanOrEqual(3 * 256)
    }
    tree.leavesRead = 0
    const proof = await consistencyProof(tree, 65_300, tree.size)
    expect(verifyConsistency(65_300, await treeRoot(tree, 65_300), tree.size, root, proof)).toBe(true)
    expect(tree.leavesRead).toBeLessThanOrEqual(6 * 256)
  })

  it('refuses to prove what is not in the tree', async () => {
    await expect(inclusionProof(withoutNodes, 5, 5)).rejects.toThrow(RangeError)
    await expect(consistencyProof(withoutNodes, 6, 5)).rejects.toThrow(RangeError)
  })
})

const VECTORS = new URL('../../../shared/vectors/merkle/', import.meta.url)
const hasVectors = existsSync(VECTORS)

describe.skipIf(!hasVectors)(
  `transparency-dev/merkle vectors${hasVectors ? '' : ' (skipped: ../shared is absent)'}`,
  () => {
    const read = (folder: string) =>
      readdirSync(new URL(`${folder}/`, VECTORS), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.json'))
        .map(
          (name) =>
            [
              name,
              JSON.parse(readFileSync(new URL(`${folder}/${encodeURI(name)}`, VECTORS), 'utf8')),
            ] as const,
        )
    const bytes = (text: string | null) => Buffer.from(text ?? '', 'base64')
    const path = (hashes: string[] | null) => (hashes ?? []).map(bytes)

    it('agrees on every inclusion proof', () => {
      const vectors = read('inclusion')
      expect(vectors.length).toBeGreaterThan(90)
      for (const [name, { leafIdx, treeSize, root, leafHash, proof, wantErr }] of vectors) {
        const verified = verifyInclusion(bytes(leafHash), leafIdx, treeSize, path(proof), bytes(root))
        expect(verified, name).toBe(!wantErr)
      }
    })

    it('agrees on every consistency proof', () => {
      const vectors = read('consistency')
      expect(vectors.length).toBeGreaterThan(90)
      for (const [name, { size1, size2, root1, root2, proof, wantErr }] of vectors) {
        expect(verifyConsistency(size1, bytes(root1), size2, bytes(root2), path(proof)), name).toBe(!wantErr)
      }
    })
  },
)
