/** Commands that remove a login sandbox save its conversations first: no other copy of them is left afterwards. */
import { existsSync, globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { LoginRecords } from '../../src/login-sandbox/login-records.ts'
import { homeAt } from '../../src/store/home.ts'
import { jsonl, LINES, PATHS } from '../../src/transcripts/transcripts.fixture.ts'
import { TestHome } from '../craik.ts'

const SANDBOX = 'octo-sandbox'

let home: TestHome
beforeEach(() => {
  home = new TestHome()
})
afterEach(async () => {
  await home.run(['sandbox', 'delete', '--all', '--yes'])
  await home.run(['supervisor', 'stop'])
  home[Symbol.dispose]()
})

async function craik(...args: string[]): Promise<void> {
  const { code, stderr } = await home.run(args, { env: { SANDBOX_LOGIN: 'octo' } })
  expect(code, stderr).toBe(0)
}

/** Creates the sandbox with its volume, and a conversation that nothing has saved yet. */
async function createWithConversation(prompt: string): Promise<string> {
  const volume = ['--volume', 'octo-llm:.config/llm-state']
  const { id } = await home.json<{ id: string }>(['sandbox', 'create', '--name', SANDBOX, ...volume])
  const path = PATHS['claude-code'].replace('.claude/', '.config/llm-state/claude/')
  const script = 'mkdir -p "$(dirname "$HOME/$1")" && cat > "$HOME/$1"'
  const write = ['sandbox', 'exec', SANDBOX, '--', 'sh', '-c', script, 'sh', path]
  const input = jsonl(LINES['claude-code']([{ prompt, answer: 'yes' }]))
  expect(await home.run(write, { input })).toMatchObject({ code: 0 })
  return id
}

function recordEntry(sandboxId: string): void {
  new LoginRecords(homeAt(home.home).loginSandboxes).enter(
    {
      login: 'octo',
      profile: null,
      sandboxId,
      inbox: home.path('chosen'),
      entryTimestamp: '2026-11-15T09-12-44Z',
      workspace: null,
      author: null,
    },
    undefined,
  )
}

function savedIn(inbox: string): string[] {
  return globSync(join(home.path(inbox), 'conversations/*/*.md')).map((path) => basename(path))
}

const volume = () => join(home.home, 'volumes/octo-llm')

it('nuke, also when only the volumes are left', async () => {
  recordEntry(await createWithConversation('is it saved?'))
  await craik('sandbox', 'delete', SANDBOX)
  expect(savedIn('chosen')).toEqual([])
  await craik('nuke', '--yes')
  expect(savedIn('chosen')).toEqual(['is-it-saved.md'])
  expect(existsSync(volume())).toBe(false)
})

it('prune, which removes a stopped sandbox first and its volumes later', async () => {
  recordEntry(await createWithConversation('is it saved?'))
  await craik('sandbox', 'stop', SANDBOX)
  await craik('prune', '--hard', '--delete')
  expect(existsSync(volume())).toBe(true)
  await craik('prune', '--hard', '--delete')
  expect(savedIn('chosen')).toEqual(['is-it-saved.md'])
  expect(existsSync(volume())).toBe(false)
})

it('to the inbox of the settings when no record names one', async () => {
  await createWithConversation('is it saved?')
  await craik('sandbox', 'delete', SANDBOX)
  await craik('prune', '--hard', '--delete')
  expect(savedIn('inbox')).toEqual(['is-it-saved.md'])
  expect(existsSync(volume())).toBe(false)
})

it.each([
  ['nuke', '--yes'],
  ['prune', '--hard', '--delete'],
])('or stop before they remove anything: %s', async (...command) => {
  recordEntry(await createWithConversation('is it saved?'))
  await craik('sandbox', 'delete', SANDBOX)
  writeFileSync(home.path('chosen'), 'not a folder')
  const refused = await home.run(command, { env: { SANDBOX_LOGIN: 'octo' } })
  expect(refused.code, refused.stderr).toBe(88)
  expect(refused.stderr).toContain('craik volume delete octo-llm')
  expect(existsSync(volume())).toBe(true)
  rmSync(home.path('chosen'))
  mkdirSync(home.path('chosen'))
  await craik(...command)
  expect(savedIn('chosen')).toEqual(['is-it-saved.md'])
  expect(existsSync(volume())).toBe(false)
})
