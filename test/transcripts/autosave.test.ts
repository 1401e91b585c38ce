/**
 * Craik saves a login sandbox by itself: conversations and changes reach the inbox while it runs, and after it was
 * deleted.
 */
import { chownSync, existsSync, globSync, lstatSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { VOLUME_LINKS } from '../../src/login-sandbox/keep/mirrors.ts'
import { parseState } from '../../src/login-sandbox/keep/sandbox-state.ts'
import { setUpScript } from '../../src/login-sandbox/keep/set-up-script.ts'
import { stateScript } from '../../src/login-sandbox/keep/state-script.ts'
import { LoginRecords } from '../../src/login-sandbox/login-records.ts'
import { INSIDE } from '../../src/sidecar/protocol.ts'
import { homeAt } from '../../src/store/home.ts'
import { jsonl, LINES, PATHS } from '../../src/transcripts/transcripts.fixture.ts'
import { canBe, IDENTITIES, type LiveSandbox, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'

const ENTERED = '2026-11-15T09-12-44Z'
const KEY = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const DEADLINE_MS = 60_000

async function until<T>(look: () => T | undefined | Promise<T | undefined>, what: string): Promise<T> {
  for (const endsMs = performance.now() + DEADLINE_MS; performance.now() < endsMs; await sleep(100)) {
    const found = await look()
    if (found !== undefined) return found
  }
  throw new Error(`${what} never came`)
}

/** Runs a script with `/bin/sh -s` in the sandbox, and expects it to succeed. */
async function sh(sandbox: LiveSandbox, script: string): Promise<string> {
  const { code, stdout, stderr } = await sandbox.exec(['/bin/sh', '-s'], { stdin: script, cwd: INSIDE.home })
  expect([code, stderr]).toEqual([0, ''])
  return stdout
}

describe.each(IDENTITIES)('as %s', (identity) => {
  const title = 'saves what agents said and what was installed, and goes on when the sandbox is gone'
  it.skipIf(!canBe(identity))(canBe(identity) ? title : `${title} (${ROOT_IS_NEEDED})`, async () => {
    await using home = await SandboxHome.open({ identity })
    const supervising = home.run(['supervisor', 'run', '--autosave', '300ms'], { timeoutMs: 120_000 })
    await until(
      async () => (await home.json<{ ready?: true }>(['supervisor', 'status'])).ready,
      'the supervisor',
    )
    const args = ['--name', 'octo-sandbox', '--volume', 'octo-llm:.config/llm-state']
    const sandbox = await home.create(args)
    await sh(sandbox, setUpScript({ home: INSIDE.home, git: { name: 'Octo', email: 'octo@example.com' } }))
    const inbox = home.path('inbox')
    // The folder is complete, and belongs to the user, before the supervisor sees it for the first time.
    const folder = home.path('login-sandboxes')
    new LoginRecords(folder).enter(
      {
        login: 'octo',
        profile: null,
        sandboxId: sandbox.id,
        inbox,
        entryTimestamp: ENTERED,
        workspace: null,
        author: null,
      },
      parseState(Buffer.from(await sh(sandbox, stateScript())), Date.UTC(2026, 10, 15, 9, 12, 44)),
    )
    for (const path of [folder, ...readdirSync(folder).map((name) => join(folder, name))])
      chownSync(path, home.uid, home.uid)
    renameSync(folder, homeAt(home.home).loginSandboxes)

    const say = (harness: 'claude-code' | 'codex', prompt: string) => {
      const path = PATHS[harness]
      const content = jsonl(LINES[harness]([{ prompt, answer: `it is ${KEY}` }]))
      return sh(
        sandbox,
        `mkdir -p '${path.slice(0, path.lastIndexOf('/'))}'; cat >'${path}' <<'X'\n${content}X\n`,
      )
    }
    // While a command runs in the sandbox, the supervisor checks the sandbox each time.
    const staying = sandbox.exec(['sleep', '120']).catch(() => undefined)
    await say('claude-code', 'what is the key?')
    await sh(sandbox, 'mkdir -p bin && touch bin/hello')
    await until(() => globSync(join(inbox, 'conversations/*/what-is-the-key.md'))[0], 'the conversation')
    const changes = join(inbox, ENTERED, 'changes.md')
    await until(
      () => (existsSync(changes) && readFileSync(changes, 'utf8').includes('`bin/hello`')) || undefined,
      'the change',
    )

    // An export by command uses the same folder and the same names, so it writes nothing twice.
    const exportArgs = ['transcripts', 'export', '--sandbox', 'octo-sandbox', '--inbox', inbox]
    expect(await home.json([...exportArgs, '--format', 'json'])).toEqual([])

    // This conversation comes right before the deletion, so only a command saves it.
    await say('codex', 'and at last?')
    const pipe = PATHS.codex.replace(/[^/]*$/, 'rollout-pipe.jsonl')
    await sh(sandbox, `mkfifo '${pipe}'`)
    await sandbox.delete()
    await staying
    const saved = await home.run(['save', '--login', 'octo', '--format', 'json'])
    expect(saved).toMatchObject({ code: 0, stderr: `craik: ${pipe} was skipped: it is a pipe\n` })
    const files = globSync(join(inbox, 'conversations/*/*.md'))
    expect(files.map((file) => file.slice(file.lastIndexOf('/') + 1)).sort()).toEqual([
      'and-at-last.md',
      'what-is-the-key.md',
    ])
    for (const file of [...files, changes]) {
      expect(readFileSync(file, 'utf8')).not.toContain(KEY)
      expect(lstatSync(file).uid).toBe(home.uid)
    }
    expect(readFileSync(files[0]!, 'utf8')).toContain('sandbox: "octo-sandbox"')
    const { stdout: log } = await home.run(['supervisor', 'logs', '--lines', '1000'])
    expect(log).not.toContain('could not save')
    expect(await home.run(['save', '--login', 'nobody'])).toMatchObject({ code: 2 })

    // The next sandbox with the same volume has the conversations again.
    const next = await home.create(args)
    await sh(next, setUpScript({ home: INSIDE.home, git: { name: 'Octo', email: 'octo@example.com' } }))
    expect(await sh(next, `cat '${PATHS['claude-code']}'`)).toContain('what is the key?')
    const links = await sh(next, `find . -type l -lname '*llm-state*' | sort`)
    expect(links.split('\n').filter(Boolean)).toEqual(VOLUME_LINKS.map((mirror) => `./${mirror.home}`).sort())
    await next.delete()
    await home.run(['supervisor', 'stop'])
    expect((await supervising).stderr).toBe('')
  })
})
