/**
 * Craik can unpack everything that it packs of a sandbox's tree, whatever that tree is. Otherwise a saved copy would be
 * useless.
 */
import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, mkdtempSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { OpenFolder } from './open-folder.ts'
import { packFolder } from './pack.ts'
import { rewriteTar } from './rewrite.ts'
import { unpackInto } from './unpack.ts'

const LIMITS = { entries: 100_000, bytes: 10 ** 9 }
const signal = new AbortController().signal
let base: string
let source: string

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'craik-any-tree-'))
  source = join(base, 'source')
  mkdirSync(source)
})
// `rm` works with descriptors, because some of the paths are longer than any system call accepts.
afterEach(() => execFileSync('rm', ['-rf', '--', base]))

type Leaf = (folder: OpenFolder, name: string) => void
interface Branch {
  /** The number of nested folders. Their names have `nameBytes` bytes each. */
  readonly depth: number
  readonly nameBytes: number
  readonly leaves: readonly Leaf[]
}

const LEAVES: readonly Leaf[] = [
  (folder, name) => writeFileSync(folder.at(name), name),
  (folder, name) => {
    writeFileSync(folder.at(name), '')
    truncateSync(folder.at(name), 300_000)
  },
  (folder, name) => symlinkSync('x'.repeat(4095), folder.at(name)),
  (folder, name) => mkdirSync(folder.at(name), 0o500),
  (folder, name) => execFileSync('mkfifo', [name], { cwd: folder.path.replace('self', String(process.pid)) }),
  // Another name of a file at the top. The packer may see either name first.
  (folder, name) => {
    writeFileSync(join(source, `m${name}`), 'one file')
    linkSync(join(source, `m${name}`), folder.at(name))
  },
]

/** Depths and lengths around the limits, and far beyond them. */
const BRANCHES: fc.Arbitrary<Branch> = fc.record({
  depth: fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 250, max: 260 }), fc.constant(300)),
  nameBytes: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(133, 255)),
  leaves: fc.array(fc.constantFrom(...LEAVES), { maxLength: 4 }),
})

async function grow(top: string, { depth, nameBytes, leaves }: Branch): Promise<void> {
  let folder = await OpenFolder.open(source)
  for (let at = 0; at <= depth; at++) {
    const outer = folder
    folder = await outer.enterOrCreate(at === 0 ? top : 'n'.repeat(nameBytes))
    await outer.close()
  }
  for (const [at, leaf] of leaves.entries()) leaf(folder, `${top}${at}`)
  await folder.close()
}

async function unpack(archive: Readable) {
  const target = mkdtempSync(join(base, 'target-'))
  return unpackInto(target, archive, LIMITS, signal, { asDisk: {} })
}

describe('any tree', () => {
  it('can be packed, unpacked, rewritten, and unpacked again', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(BRANCHES, { minLength: 1, maxLength: 2 }), async (branches) => {
        execFileSync('rm', ['-rf', '--', source])
        mkdirSync(source)
        for (const [at, branch] of branches.entries()) await grow(`t${at}`, branch)
        const packing = await packFolder(source, { signal, limits: LIMITS, hardLinks: true })
        const archive = await buffer(packing.archive)
        const { files, folders, links } = packing.report()
        const whole = { files, folders, links, skippedCount: 0 }
        expect(await unpack(Readable.from([archive]))).toMatchObject(whole)
        const rewriting = rewriteTar(Readable.from([archive]), { signal, limits: LIMITS })
        const again = await buffer(rewriting.archive)
        expect(rewriting.report()).toMatchObject(whole)
        expect(await unpack(Readable.from([again]))).toMatchObject(whole)
      }),
      { numRuns: 8 },
    )
  }, 60_000)

  it.each(['own', 'posix', 'gnu'])(
    'is complete with paths of every length around the limit of a header’s name (%s)',
    async (format) => {
      for (let length = 90; length <= 110; length++) {
        mkdirSync(join(source, 'd'.repeat(length)))
        writeFileSync(join(source, 'd'.repeat(length), 'f'), `in a folder of ${length} bytes`)
      }
      const ours = () => packFolder(source, { signal, limits: LIMITS }).then(({ archive }) => archive)
      // The output is read at once, because Node drops what a program wrote that ended before anything read it.
      const theirs = () =>
        Readable.from([
          execFileSync('tar', ['-c', `--format=${format}`, '-f', '-', '-C', source, '.'], {
            maxBuffer: LIMITS.bytes,
          }),
        ])
      const target = mkdtempSync(join(base, 'target-'))
      await unpackInto(target, format === 'own' ? await ours() : theirs(), LIMITS, signal)
      expect(execFileSync('diff', ['-r', source, target], { encoding: 'utf8' })).toBe('')
    },
  )

  it('that another program packed loses only what is too long or too deep, and reports that', async () => {
    await grow('deep', { depth: 300, nameBytes: 20, leaves: [LEAVES[0]!] })
    await grow('kept', { depth: 3, nameBytes: 20, leaves: [LEAVES[0]!] })
    const tar = execFileSync('tar', ['-c', '--format=posix', '-f', '-', '-C', source, '.'], {
      maxBuffer: LIMITS.bytes,
    })
    const rewriting = rewriteTar(Readable.from([tar]), { signal, limits: LIMITS })
    const archive = await buffer(rewriting.archive)
    const { files, skippedFor } = rewriting.report()
    expect([files, skippedFor.map(({ reason }) => reason)]).toEqual([1, ['name is too long']])
    expect(await unpack(Readable.from([archive]))).toMatchObject({ files: 1, skippedCount: 0 })
  })

  it('loses what exceeds its limits, and reports what and why', async () => {
    await grow('deep', { depth: 300, nameBytes: 1, leaves: [] })
    await grow('long', { depth: 30, nameBytes: 133, leaves: [] })
    const packing = await packFolder(source, { signal })
    await buffer(packing.archive)
    expect(packing.report()).toMatchObject({
      folders: 256 + 30,
      skippedCount: 2,
      skippedFor: [
        { reason: 'name is too long', count: 1 },
        { reason: 'too deep', count: 1 },
      ],
    })
  })
})
