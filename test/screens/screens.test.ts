/**
 * Compares the output at a terminal of 80 columns and 24 rows with the screens in this folder. To accept new screens:
 * `npx vitest run --project system test/screens/screens.test.ts -u`.
 */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Terminal } from '../e2e/interactive-user.ts'
import { renderScreen } from '../e2e/terminal-screen.ts'
import { LoginSandboxScene } from '../login-sandbox/scene.ts'
import type { SandboxHome } from '../sandbox-home.ts'
import { normalizeScreen } from './normalize-screen.ts'

const COLUMNS = 80
const ROWS = 24
const SLOW = 180_000

/** Sends a CONNECT request to the proxy of the sandbox and waits for the response. */
const CONNECT = `const { hostname, port } = new URL(process.env.HTTPS_PROXY)
const socket = require('net').connect(port, hostname, () =>
  socket.write('CONNECT collector.example:443 HTTP/1.1\\r\\nHost: collector.example:443\\r\\n\\r\\n'))
socket.on('data', () => socket.destroy())`

let scene: LoginSandboxScene
let home: SandboxHome

beforeAll(async () => {
  scene = await LoginSandboxScene.open({ identity: 'user' })
  home = scene.scene.home
  scene.scene.logIn('kimi', 1000 * 3600_000)
  scene.logInToGitHub('octo')
}, SLOW)
afterAll(() => scene?.[Symbol.asyncDispose]())

/** Opens a terminal in the workspace, in which `craik` runs with these arguments. */
function openTerminal(args: readonly string[]): Terminal {
  const { user, program, environment, home: craikHome } = home
  return new Terminal(
    {
      folder: scene.workspace,
      home: craikHome,
      user,
      program,
      environment: { ...environment, ...scene.env() },
    },
    args,
    COLUMNS,
    ROWS,
  )
}

async function runInTerminal(args: readonly string[]): Promise<string> {
  using terminal = openTerminal(args)
  await terminal.exited
  return terminal.screen
}

/** Checks that every line fits, except a command on its own line, and that the screen is unchanged. */
async function expectScreen(name: string, args: readonly string[], output: string): Promise<void> {
  const lines = renderScreen(output).split('\n')
  const wide = lines.filter((line) => [...line].length > COLUMNS && !/^ *craik /.test(line))
  expect(wide, `lines of craik ${args.join(' ')} that are wider than ${COLUMNS} columns`).toEqual([])
  const words = args.map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg}'`))
  const screen = normalizeScreen(lines.join('\n'), home.folder)
  await expect(`$ craik ${words.join(' ')}\n${screen}\n`).toMatchFileSnapshot(
    join(import.meta.dirname, `${name}.txt`),
  )
}

async function compare(
  name: string,
  args: readonly string[],
  part = (output: string) => output,
): Promise<void> {
  await expectScreen(name, args, part(await runInTerminal(args)))
}

/** Keeps only the rows that are the same on every host. */
function commonChecks(output: string): string {
  const rows = /^ {2}(?:ok|warn|off) {2,4}(?:node|store|logins|supervisor) /
  return output
    .split('\r\n')
    .filter((line) => rows.test(line))
    .join('\r\n')
}

/** Removes the limits, because their enforcement depends on the host. */
function withoutLimits(output: string): string {
  return output.replace(/^ {2}limits .*\r\n(?: {5,}.*\r\n)*/m, '')
}

describe('at a terminal of 80 columns', { timeout: SLOW }, () => {
  it('shows the commands to start with', () => compare('help', ['--help']))

  it('shows an error with the command that helps', () => compare('error', ['sandbox', 'stop', 'parser']))

  it('shows an error that is too long for one line', () =>
    compare('long-error', ['prompt', 'hi', '--harness', 'gemini']))

  it('shows what is missing on this host', async () => {
    const args = ['doctor']
    const output = await runInTerminal(args)
    // A command that fixes a problem has its own line and may be longer.
    const isCommand = (line: string) => /^ {10,}\S/.test(line)
    const wide = output.split('\r\n').filter((line) => [...line].length > COLUMNS && !isCommand(line))
    expect(wide).toEqual([])
    await expectScreen('doctor', args, commonChecks(output))
  })

  it('shows the logins', () => compare('accounts', ['accounts']))

  it('sets and lists budgets', async () => {
    await compare('budget-set', [
      'budget',
      'set',
      '--provider',
      'provider_openai',
      '--limit',
      '2usd',
      '--per',
      'day',
    ])
    await home.run(['budget', 'set', '--total', '--limit', '50usd', '--tokens', '20000000', '--per', 'month'])
    await compare('budget-show', ['budget', 'show'])
  })

  it('lists and verifies receipts', async () => {
    await home.run(['shell', 'true'])
    await home.run(['policy', 'show', '--include-receipt'])
    await compare('receipts-list', ['receipts', 'list'])
    await compare('receipts-verify', ['receipts', 'verify', '--replay'])
  })

  it('creates sandboxes, and shows the requests that are blocked in them', async () => {
    const create = ['sandbox', 'create', '--name', 'parser', '--workspace', '.', '--credentials', 'none']
    await compare('sandbox-create', create, withoutLimits)
    await compare('sandbox-list', ['sandbox', 'list'])
    const watch = ['egress', 'watch']
    using terminal = openTerminal(watch)
    await terminal.says('watching')
    await home.run(['sandbox', 'exec', 'parser', '--', '/opt/craik/node', '-e', CONNECT])
    await terminal.says('allow it:')
    await home.run(['egress', 'allow', 'registry.example.com', '--sandbox', 'parser'])
    await terminal.says('rule: allow')
    terminal.typeText('\u0003')
    await terminal.exited
    await expectScreen('egress-watch', watch, terminal.screen.replace('^C', ''))
    await compare('egress-list', ['egress', 'list'])
  })

  it('shows an agent at work, and the next command to type', () =>
    compare('prompt', ['prompt', 'RUN: echo hello > new.txt', '--harness', 'fixture', '--workspace', '.']))

  it('starts a login sandbox', () => compare('up', ['up', '--no-attach'], withoutLimits))
})
