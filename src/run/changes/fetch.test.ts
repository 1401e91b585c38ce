import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { answering } from './changes.fixture.ts'
import { fetchContents } from './fetch.ts'

const header = (i: number, s: number | null) => Buffer.from(`${JSON.stringify({ i, s })}\n`)

async function fetchPaths(paths: readonly string[], chunks: readonly Buffer[]) {
  const taken: (Buffer | undefined)[] = []
  const take = async (index: number, content: Buffer | undefined) => {
    taken[index] = content
  }
  await fetchContents(answering(chunks), paths, take, NEVER_ABORTED)
  return taken
}

describe('file contents from a sandbox', () => {
  it('arrive unchanged with any chunk boundaries', async () => {
    const contents = fc.array(fc.option(fc.uint8Array({ maxLength: 50 }), { nil: undefined }), {
      maxLength: 6,
    })
    await fc.assert(
      fc.asyncProperty(contents, fc.array(fc.nat(400)), async (provided, cuts) => {
        const wanted = provided.map((one) => one && Buffer.from(one))
        const sent = Buffer.concat(
          wanted.flatMap((one, i) => [header(i, one?.length ?? null), one ?? Buffer.alloc(0)]),
        )
        const at = [0, ...cuts.sort((a, b) => a - b), sent.length]
        const chunks = at.slice(1).map((end, i) => sent.subarray(at[i], end))
        expect(await fetchPaths(wanted.map(String), wanted.length === 0 ? [] : chunks)).toEqual(wanted)
      }),
    )
  })

  it.each<[string, readonly Buffer[]]>([
    ['breaks off in a file', [header(0, 10), Buffer.from('short')]],
    ['breaks off before one', []],
    ['breaks off in a header', [Buffer.from('{"i":0')]],
    ['is another than was asked for', [header(1, 0)]],
    ['is one too many', [header(0, 0), header(1, 0)]],
    ['has something after it', [header(0, 1), Buffer.from('ab')]],
    ['says a length below nothing', [header(0, -1)]],
    ['says a length that no file may have', [header(0, 2 ** 40)]],
    ['says no length', [Buffer.from('{}\n')]],
    ['has a header without end', [Buffer.alloc(1000, 'x')]],
  ])('are refused when one %s', async (_, chunks) => {
    await expect(fetchPaths(['a'], chunks)).rejects.toMatchObject({ code: 'boundary_failed' })
  })

  it('are refused before they are read when they exceed the limit of a run', async () => {
    const large = 64 * 1024 * 1024
    const zeros = Buffer.alloc(large)
    const chunks = Array.from({ length: 17 }, (_, i) => [header(i, large), ...(i < 16 ? [zeros] : [])]).flat()
    const paths = Array.from({ length: 17 }, String)
    await expect(
      fetchContents(answering(chunks), paths, async () => {}, NEVER_ABORTED),
    ).rejects.toMatchObject({
      code: 'too_large',
    })
  })
})
