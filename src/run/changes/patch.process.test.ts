import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { colourPatch, fitForTerminal } from '../../cli/run-changes/patch-lines.ts'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import type { StoredChange } from './change-set.ts'
import { file, link, newChangesScene, storeChanges } from './changes.fixture.ts'
import { type FilePatch, patchOf } from './patch.ts'

async function patches(changes: readonly StoredChange[], contents: readonly string[]): Promise<FilePatch[]> {
  const all: FilePatch[] = []
  for await (const patch of patchOf(storeChanges(newChangesScene({}), changes, contents), NEVER_ABORTED))
    all.push(patch)
  return all
}

describe('a patch', () => {
  it('turns the old text into the new one for any lines', async () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', 'c', '', '\t', ' x'))
      .chain((lines) => fc.constantFrom(lines.join('\n'), `${lines.join('\n')}\n`))
    await fc.assert(
      fc.asyncProperty(text, text, async (old, now) => {
        fc.pre(old !== now)
        const scene = newChangesScene({ 'some file': old })
        const change = { path: 'some file', before: file(old), after: file(now) }
        const [patch] = await patches([change], [old, now])
        execFileSync('git', ['apply', '--whitespace=nowarn', '-'], {
          cwd: scene.workspace,
          input: patch!.text,
        })
        expect(readFileSync(join(scene.workspace, 'some file'), 'utf8')).toBe(now)
      }),
      { numRuns: 25 },
    )
  })

  it('counts lines', async () => {
    const changes = [
      { path: 'added', before: null, after: file('1\n2\n') },
      { path: 'changed', before: file('1\n2\n'), after: file('1\n3\n4\n') },
      { path: 'removed', before: file('1\n2\n'), after: null },
      { path: 'run', before: file('1\n2\n'), after: file('1\n2\n', true) },
    ]
    const counted = (await patches(changes, ['1\n2\n', '1\n3\n4\n'])).map((one) => [
      one.change,
      one.addedLines,
      one.removedLines,
      one.note,
    ])
    expect(counted).toEqual([
      ['added', 2, 0, null],
      ['changed', 2, 1, null],
      ['removed', 0, 2, null],
      ['changed', 0, 0, 'now executable'],
    ])
  })

  it('marks binary content, and says when the old content is unknown', async () => {
    const [binary, unknown, exchanged] = await patches(
      [
        { path: 'a', before: null, after: file('\0\u0001') },
        { path: 'b', before: file('never kept'), after: file('now\n') },
        { path: 'c', before: file('now\n'), after: link('a') },
      ],
      ['\0\u0001', 'now\n'],
    )
    expect([binary!.note, binary!.addedLines]).toEqual(['binary', null])
    expect(unknown!.note).toBe('before: no longer available')
    expect(exchanged!.text).toContain('deleted file mode 100644\n')
    expect(exchanged!.text).toContain('new file mode 120000\n')
  })

  it('compares two texts without common lines in bounded time', async () => {
    const lines = (from: number) => Array.from({ length: 30_000 }, (_, i) => `line ${from + i}\n`).join('')
    const [old, now] = [lines(0), lines(1_000_000)]
    const [patch] = await patches([{ path: 'a', before: file(old), after: file(now) }], [old, now])
    expect([patch!.addedLines, patch!.removedLines]).toEqual([30_000, 30_000])
  })

  it('sends no control characters to a terminal', () => {
    const shown = fitForTerminal('+a\u001b[2Jb\r\n+\tc\u202ed\u009b31m\n')
    expect(shown).toBe('+a�[2Jb�\n+\tc�d�31m\n')
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(fitForTerminal(text)).not.toMatch(/(?![\n\t])\p{Cc}/u)
      }),
    )
    expect(colourPatch('+a\n-b\n c', {})).toBe('\u001b[32m+a\u001b[0m\n\u001b[31m-b\u001b[0m\n c')
    expect(colourPatch('+a', { NO_COLOR: '1' })).toBe('+a')
  })
})
