/**
 * Tests that an export writes each conversation once, keeps it up to date, and never overwrites the user's own changes.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import type { TranscriptSource } from '../source.ts'
import {
  jsonl,
  LINES,
  memoryHome,
  PATHS,
  SESSION,
  type TranscriptExchange,
  TWO,
} from '../transcripts.fixture.ts'
import { type ExportOptions, excludeSessions, exportNew } from './export-new.ts'
import { enterOwn } from './own-folder.ts'

let folder: string
let inbox: string
let records: string
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'craik-export-')))
  inbox = join(folder, 'inbox')
  records = join(folder, 'records')
})
afterEach(() => rmSync(folder, { recursive: true }))

const MORE: TranscriptExchange = { prompt: 'and then?', answer: 'Nothing more.' }
const home = (exchanges: readonly TranscriptExchange[] = TWO, path = PATHS.kimi): TranscriptSource =>
  memoryHome({ [path]: jsonl(LINES.kimi(exchanges)) })

async function run(source: TranscriptSource, more: Partial<ExportOptions> = {}) {
  const signal = new AbortController().signal
  const options = { source, inbox, records, scope: 'sbx_1', redact: (text: string) => text, signal, ...more }
  return (await exportNew(options)).map(({ path, outcome }) => [outcome, path.slice(inbox.length + 1)])
}
const FILE = 'conversations/2026-11-15T09-12-44Z/why-does-the-parser-test-fail.md'
const read = (path = FILE) => readFileSync(join(inbox, path), 'utf8')
/** Returns the names of all files without following links. */
const files = (below = inbox): string[] =>
  readdirSync(below, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? files(join(below, entry.name)) : [entry.name],
  )

describe('an export', () => {
  it('writes a conversation once, readable only by its owner', async () => {
    expect(await run(home())).toEqual([['written', FILE]])
    expect(read()).toContain('\n## user\n\nwhy does the parser test fail?\n')
    expect(read().match(/^## (?:user|assistant)$/gm)).toHaveLength(4)
    expect(statSync(join(inbox, FILE)).mode & 0o777).toBe(0o600)
    for (const part of ['', 'conversations', 'conversations/2026-11-15T09-12-44Z'])
      expect(statSync(join(inbox, part)).mode & 0o777).toBe(0o700)
    expect(await run(home())).toEqual([])
    expect(files()).toHaveLength(1)
  })

  it('updates the file in place when the conversation continued', async () => {
    await run(home())
    expect(await run(home([...TWO, MORE]))).toEqual([['updated', FILE]])
    expect(read()).toContain('Nothing more.')
    expect(files()).toHaveLength(1)
  })

  it('leaves out Craik’s own session by its id alone, until the user continues it', async () => {
    const asks = (session: string, ...more: TranscriptExchange[]) => ({
      [PATHS.kimi.replace(`session_${SESSION}`, session)]: jsonl(LINES.kimi([TWO[0]!, ...more])),
    })
    excludeSessions({ records, scope: 'sbx_1' }, 'kimi', 'own')
    expect(await run(memoryHome({ ...asks('own'), ...asks('typed') }))).toEqual([['written', FILE]])
    // With another scope or another program, it is another session.
    excludeSessions({ records, scope: 'sbx_2' }, 'kimi', 'elsewhere')
    excludeSessions({ records, scope: 'sbx_1' }, 'codex', 'elsewhere')
    expect(await run(memoryHome(asks('elsewhere')))).toHaveLength(1)
    expect(await run(memoryHome(asks('own', MORE)))).toHaveLength(1)
    expect(files()).toHaveLength(3)
  })

  it('never overwrites a file that was edited', async () => {
    await run(home())
    writeFileSync(join(inbox, FILE), `${read()}\nmy own note\n`)
    expect(await run(home([...TWO, MORE]))).toEqual([['edited', FILE]])
    expect(read()).toContain('my own note')
    expect(read()).not.toContain('Nothing more.')
    expect(files()).toHaveLength(1)
  })

  it.each([
    ['moved', () => renameSync(join(inbox, FILE), join(inbox, 'mine.md'))],
    ['deleted', () => rmSync(join(inbox, FILE))],
    ['deleted with its folder', () => rmSync(join(inbox, 'conversations'), { recursive: true })],
    ['deleted with all of the inbox', () => rmSync(inbox, { recursive: true })],
  ])('never creates a file again that was %s', async (_, take) => {
    await run(home())
    take()
    expect(await run(home([...TWO, MORE]))).toEqual([['gone', FILE]])
    expect(existsSync(join(inbox, FILE))).toBe(false)
  })

  it('does not touch what the user put in place of a file', async () => {
    await run(home())
    renameSync(join(inbox, FILE), join(inbox, 'mine.md'))
    symlinkSync(join(inbox, 'mine.md'), join(inbox, FILE))
    const before = readFileSync(join(inbox, 'mine.md'), 'utf8')
    expect(await run(home([...TWO, MORE]))).toEqual([['edited', FILE]])
    expect(readFileSync(join(inbox, 'mine.md'), 'utf8')).toBe(before)
  })

  it('gives different names to conversations with the same beginning', async () => {
    const other = PATHS.kimi.replace('7c9e6679', '8c9e6679')
    const text = jsonl(LINES.kimi(TWO))
    const both = memoryHome({ [PATHS.kimi]: text, [other]: text })
    expect(await run(both)).toEqual([
      ['written', FILE],
      ['written', FILE.replace('.md', '-2.md')],
    ])
  })

  it('never overwrites a file that it did not write', async () => {
    mkdirSync(join(inbox, FILE, '..'), { recursive: true, mode: 0o700 })
    writeFileSync(join(inbox, FILE), 'my own\n')
    expect(await run(home())).toEqual([['written', FILE.replace('.md', '-2.md')]])
    expect(read()).toBe('my own\n')
  })

  it('of another sandbox with the same session does not touch the first one’s file', async () => {
    await run(home(), { sandbox: 'sbx_1' })
    const before = read()
    const forged = home([{ prompt: TWO[0]!.prompt, answer: 'forged' }])
    expect(await run(forged, { scope: 'sbx_2', sandbox: 'sbx_2' })).toEqual([
      ['written', FILE.replace('.md', '-2.md')],
    ])
    expect(read()).toBe(before)
  })

  it('without its records recognizes its own files, and leaves edited files to the user', async () => {
    await run(home())
    rmSync(records, { recursive: true })
    expect(await run(home())).toEqual([['unchanged', FILE]])
    expect(await run(home([...TWO, MORE]))).toEqual([['updated', FILE]])
    writeFileSync(join(inbox, FILE), `${read()}\nmy own note\n`)
    rmSync(records, { recursive: true })
    expect(await run(home([...TWO, MORE]))).toEqual([['edited', FILE]])
    expect(await run(home())).toEqual([['edited', FILE]])
    expect(files()).toHaveLength(1)
  })

  it('with damaged records writes nothing', async () => {
    await run(home())
    for (const name of readdirSync(records).filter((name) => name.startsWith('conversation-')))
      writeFileSync(join(records, name), '{')
    expect((await run(home([...TWO, MORE])))[0]![0]).toBe('unknown')
    expect(read()).not.toContain('Nothing more.')
  })
})

describe('an inbox', () => {
  it.each([
    ['that is a link', () => symlinkSync(folder, inbox), 'it is a symbolic link'],
    ['that is a file', () => writeFileSync(inbox, ''), 'it is not a folder'],
    [
      'that everybody can write to',
      () => {
        mkdirSync(inbox)
        chmodSync(inbox, 0o777)
      },
      'all users can write to it',
    ],
    [
      'whose conversations are a link',
      () => {
        mkdirSync(inbox)
        symlinkSync(folder, join(inbox, 'conversations'))
      },
      'it is a symbolic link',
    ],
    [
      'with a link in the place of a folder',
      () => {
        mkdirSync(join(inbox, 'conversations'), { recursive: true })
        symlinkSync(folder, join(inbox, 'conversations/2026-11-15T09-12-44Z'))
      },
      'it is a symbolic link',
    ],
  ])('%s is refused, and nothing is written through it', async (_, make, why) => {
    make()
    const before = files(folder).length
    await expect(run(home())).rejects.toMatchObject({
      code: 'export_failed',
      message: expect.stringContaining(why),
    })
    const written = files(folder).filter((name) => name.endsWith('.md'))
    expect([written, before]).toEqual([[], before])
  })

  it('that the user shares with a group is accepted, and the group cannot read what Craik writes', async () => {
    mkdirSync(inbox)
    chmodSync(inbox, 0o775)
    expect(await run(home())).toEqual([['written', FILE]])
    expect(statSync(inbox).mode & 0o777).toBe(0o775)
    expect(statSync(join(inbox, 'conversations')).mode & 0o077).toBe(0)
    expect(statSync(join(inbox, FILE)).mode & 0o077).toBe(0)
  })

  it('whose folder is replaced between the check and its use is refused', async () => {
    mkdirSync(inbox)
    const parent = await OpenFolder.open(folder)
    const replaced = Object.create(parent, {
      at: { value: (name: string) => parent.at(name) },
      enter: {
        value: (name: string) => {
          renameSync(inbox, join(folder, 'checked'))
          mkdirSync(inbox)
          return parent.enter(name)
        },
      },
    }) as OpenFolder
    await expect(enterOwn(replaced, 'inbox', inbox)).rejects.toMatchObject({
      code: 'export_failed',
      message: expect.stringContaining('it was replaced'),
    })
    await parent.close()
  })

  it('in a missing folder is not created', async () => {
    await expect(run(home(), { inbox: join(folder, 'no/inbox') })).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})

describe('an interrupted export', () => {
  /**
   * Returns the path of the record of the only conversation. The tests set it to its state between the intent and the
   * file.
   */
  const record = () => join(records, readdirSync(records).find((name) => name.startsWith('conversation-'))!)
  const rewrite = (change: object) => {
    const before = JSON.parse(readFileSync(record(), 'utf8')) as object
    writeFileSync(record(), JSON.stringify({ ...before, ...change }))
    for (const name of readdirSync(records).filter((name) => name.startsWith('file-')))
      rmSync(join(records, name))
    return before as { digest: string }
  }

  it('before the file existed writes it under the same name', async () => {
    await run(home())
    const { digest } = rewrite({ digest: null, next: 'a'.repeat(64) })
    expect(digest).toMatch(/^[0-9a-f]{64}$/)
    rmSync(join(inbox, FILE))
    expect(await run(home())).toEqual([['written', FILE]])
    expect(files()).toHaveLength(1)
  })

  it('after the file existed recognizes it and continues', async () => {
    await run(home())
    const { digest } = rewrite({ digest: null })
    rewrite({ digest: null, next: digest })
    expect(await run(home([...TWO, MORE]))).toEqual([['updated', FILE]])
    expect(read()).toContain('Nothing more.')
  })

  it('between two versions recognizes the file, whichever version it has', async () => {
    await run(home())
    const { digest } = rewrite({})
    rewrite({ digest, next: 'b'.repeat(64) })
    expect(await run(home([...TWO, MORE]))).toEqual([['updated', FILE]])
    const { digest: second } = rewrite({})
    rewrite({ digest: 'c'.repeat(64), next: second })
    expect(await run(home([...TWO, MORE]))).toEqual([['unchanged', FILE]])
  })

  it('leaves no temporary files in the inbox', async () => {
    await run(home())
    const left = join(inbox, FILE, '..', `.why.md.${'a1'.repeat(8)}.tmp`)
    const own = join(inbox, FILE, '..', '.my-own.tmp')
    for (const path of [left, own]) writeFileSync(path, 'half')
    await run(home([...TWO, MORE]))
    expect([existsSync(left), existsSync(own)]).toEqual([false, true])
  })
})

describe('simultaneous exports', () => {
  it('write each conversation once', async () => {
    const both = await Promise.all([run(home()), run(home()), run(home([...TWO, MORE]))])
    expect(both.flat().filter(([outcome]) => outcome === 'written')).toHaveLength(1)
    expect(files()).toHaveLength(1)
  })

  it('of one scope wait for a limited time only, and those of other scopes do not wait at all', async () => {
    let release = () => {}
    const held = new Promise<void>((done) => {
      release = done
    })
    const slow: TranscriptSource = {
      async *list() {
        await held
        yield* []
      },
      async *read() {},
    }
    const first = run(slow)
    await expect(run(home(), { timeoutMs: 0 })).rejects.toMatchObject({ code: 'store_busy' })
    const other = PATHS.kimi.replace('7c9e6679', '8c9e6679')
    expect(await run(home(TWO, other), { scope: 'sbx_2' })).toEqual([['written', FILE]])
    release()
    await first
    expect(await run(home())).toEqual([['written', FILE.replace('.md', '-2.md')]])
  })
})
