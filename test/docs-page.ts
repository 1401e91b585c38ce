/**
 * Runs the `console` blocks of a documentation page from top to bottom, as an ordinary user at a terminal of 80
 * columns. It compares the output of the commands with the output on the page.
 *
 * - `node test/docs-page.ts docs/how-to/copy-files.md` runs pages. It exits with 1 when a page is wrong.
 * - `node test/docs-page.ts --show PAGE` also prints the output of each command.
 *
 * The lines of a block:
 *
 * - `$ command` is typed in the user's shell. A trailing \ continues it, and `<<'EOF'` takes lines up to EOF.
 * - ` shop ~/project $ ls` is typed in a sandbox's terminal, which has this prompt.
 * - `# comment` is ignored.
 * - `# exit 69` is the exit code of the command above, when it is not 0.
 * - `^C` is Ctrl-C, pressed after the lines above it were printed.
 * - `delete? [y/N] y` makes the runner type the answer when the question is printed.
 * - `value of KEY (not shown):` makes the runner type an API key. `<!-- test: needs key KEY -->` makes a provider
 * accept it.
 * - Anything else is output of the command, in this order. `…` matches anything.
 *
 * The runner replaces example ids in commands (`run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD`, `sandbox-7f3kq2`) with the ids that
 * the commands printed.
 */
import {
  chmodSync,
  chownSync,
  cpSync,
  lchownSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { enableCompileCache } from 'node:module'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as pty from '@lydell/node-pty'
import type { PackagedHarnessName } from '../src/harnesses/packages/harness-catalogue.ts'
import builtCraikSetup from './built-craik.ts'
import { ROOT, run } from './craik.ts'
import { ExampleIds, firstMissing } from './docs/compare.ts'
import { type DocsPage, type DocsStep, parsePage } from './docs/parse-page.ts'
import { startPricedProvider } from './docs/priced-provider.ts'
import { DOCS_SCRIPT, SHOP } from './docs/shop.ts'
import { renderScreen } from './e2e/terminal-screen.ts'
import { LoginScene, type Program } from './gateway/login-scene.ts'
import type { Service } from './gateway/providers.ts'
import { copyHarnesses } from './harness-image.ts'
import { createScriptedAnswerer } from './harnesses/agent-providers.ts'
import { type LocalModel, startLocalModel } from './local-model.ts'
import runFolderSetup from './run-folder.ts'
import { type HomeInstance, SandboxHome } from './sandbox-home.ts'
import { selfSigned } from './wire/certificate.ts'

const STEP_MS = 150_000
const POLL_MS = 20
/**
 * A prompt in a sandbox's terminal counts when no output follows it for this long. The time is longer when the page
 * expects no prompt.
 */
const QUIET_MS = 150
const LONG_QUIET_MS = 5_000
const COLUMNS = 80
/** The shell prints this before each prompt, with the exit code of the last command. */
const MARK = /\x1b\]777;craik-docs;(\d+)\x07/
const MARK_COMMAND = `PROMPT_COMMAND='printf "\\033]777;craik-docs;%s\\007" "$?"'`
/** The address of a local model server on the pages. The runner replaces it with the real address. */
const MODEL_ADDRESS = /(?:127\.0\.0\.1|localhost):11434/g

const PROGRAMS: Readonly<Record<string, Program>> = {
  'claude-code': 'claude',
  codex: 'codex',
  gemini: 'gemini',
  kimi: 'kimi',
}

const KEY_SERVICES: Readonly<Record<string, Service>> = {
  ANTHROPIC_API_KEY: 'anthropic',
  OPENAI_API_KEY: 'openai',
  GEMINI_API_KEY: 'gemini',
  OPENROUTER_API_KEY: 'openrouter',
}
const API_KEY = 'example-key-0123456789abcdef0123456789abcdef'

export interface PageResult {
  /** Each problem with file and line. Empty when the page is correct. */
  readonly problems: readonly string[]
  readonly transcript: string
}

/** Runs a page. Needs `CRAIK_TEST_RUN_FOLDER` with a built Craik, and leaves nothing on the host. */
export async function runPage(file: string): Promise<PageResult> {
  const page = parsePage(file, readFileSync(file, 'utf8'))
  if (page.problems.length > 0 || page.blocks.length === 0) return { problems: page.problems, transcript: '' }
  await using reader = await Reader.open(page)
  const session = new Session(page, reader)
  try {
    await session.run()
    return { problems: session.problems, transcript: session.transcript }
  } finally {
    session.close()
  }
}

/** The user of a page: a home with a repository in `~/code/shop`, and everything that the page needs. */
class Reader implements AsyncDisposable {
  readonly home: SandboxHome
  readonly environment: Readonly<Record<string, string>>
  readonly model: LocalModel | undefined
  readonly #opened: AsyncDisposableStack

  private constructor(
    home: SandboxHome,
    opened: AsyncDisposableStack,
    model: LocalModel | undefined,
    agents: readonly string[],
  ) {
    this.home = home
    this.#opened = opened
    this.model = model
    const { CRAIK_HOME: _, PATH = '', ...environment } = home.environment
    this.environment = {
      ...environment,
      PATH: `${home.path('.local/bin')}:${PATH.split(':')
        .filter((folder) => !folder.includes('node_modules'))
        .join(':')}`,
      USER: 'octo',
      LANG: 'C.UTF-8',
      TERM: 'xterm-256color',
      SANDBOX_LOGIN: 'octo',
      ...(agents.length > 0 && { SANDBOX_HARNESSES: agents.join(',') }),
      ...(model && { LOCAL_MODEL: model.baseUrl }),
    }
  }

  static async open({ needs }: DocsPage): Promise<Reader> {
    const instance: HomeInstance = {
      identity: 'user',
      homeName: '.craik',
      ...(needs.docker && { backend: 'docker' }),
    }
    await using opened = new AsyncDisposableStack()
    const certificate = selfSigned(['127.0.0.1'])
    const scene =
      needs.logins.length + needs.keys.length > 0
        ? opened.use(await LoginScene.open(instance, certificate, createScriptedAnswerer(DOCS_SCRIPT)))
        : undefined
    const home = scene?.home ?? opened.use(await SandboxHome.open(instance))
    for (const name of needs.logins) scene!.logIn(PROGRAMS[name]!)
    for (const name of needs.keys) scene!.providers.accept(KEY_SERVICES[name]!, (token) => token === API_KEY)
    if (needs.keys.includes('GEMINI_API_KEY')) {
      const priced = opened.use(await startPricedProvider(certificate, scene!.providers.bases.gemini))
      scene!.configureAccounts({ 'secret/GEMINI_API_KEY': { base_url: priced.baseUrl } })
    }
    const agents = [...needs.logins, ...needs.agents]
    if (agents.length > 0) await copyHarnesses(home.home, agents as PackagedHarnessName[], home.uid)
    const model = needs.model
      ? opened.use(await startLocalModel([{ kind: 'text', text: 'The shop formats and parses prices.' }]))
      : undefined
    const reader = new Reader(home, opened.move(), model, agents)
    await reader.#fill()
    return reader
  }

  async #fill(): Promise<void> {
    const { node, main } = this.home.program
    const script = `#!/bin/sh\nexec '${node}' '${main}' "$@"\n`
    this.#put('.local/bin/craik', script, 0o755)
    this.#put('craik/craik', script, 0o755)
    this.#put('craik/bin/sandbox.sh', script, 0o755)
    symlinkSync(node, this.home.path('.local/bin/node'))
    cpSync(join(ROOT, 'docs/verify'), this.home.path('craik/docs/verify'), { recursive: true })
    this.#put(
      '.gitconfig',
      '[user]\n\tname = Ada\n\temail = ada@example.test\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n',
    )
    for (const [name, text] of Object.entries(SHOP)) this.#put(join('code/shop', name), text)
    await run('chown', ['-R', '-h', `${this.home.uid}:${this.home.uid}`, this.home.path('craik')])
    const git = (...args: string[]) =>
      run('git', args, { cwd: this.home.path('code/shop'), env: this.environment, ...this.home.user })
    for (const args of [
      ['init', '-q'],
      ['add', '-A'],
      ['commit', '-q', '-m', 'Add prices'],
    ]) {
      const { code, stderr } = await git(...args)
      if (code !== 0) throw new Error(`git ${args[0]}: ${stderr}`)
    }
  }

  #put(path: string, text: string, mode = 0o644): void {
    const { uid } = this.home
    for (let i = 0, names = path.split('/'); i < names.length - 1; i++) {
      const folder = this.home.path(...names.slice(0, i + 1))
      mkdirSync(folder, { recursive: true, mode: 0o755 })
      chownSync(folder, uid, uid)
    }
    writeFileSync(this.home.path(path), text)
    chmodSync(this.home.path(path), mode)
    lchownSync(this.home.path(path), uid, uid)
  }

  /** Returns the text to type for a line of the page. */
  withModelAddress(text: string): string {
    if (this.model === undefined) return text
    return text.replaceAll(MODEL_ADDRESS, new URL(this.model.baseUrl).host)
  }

  /** Returns an output as the page would show it. */
  hideFolders(text: string): string {
    const model = this.model && new URL(this.model.baseUrl).host
    const own = text.replaceAll(this.home.folder, '~')
    return model === undefined ? own : own.replaceAll(model, '127.0.0.1:11434')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { stdout } = await this.home.run(['sandbox', 'list', '--format', 'json'])
    for (const { id } of JSON.parse(stdout || '[]') as { id: string }[]) await this.home.adopt(id)
    await this.#opened.disposeAsync()
  }
}

/** The terminal in which the runner types a page. */
class Session {
  readonly problems: string[] = []
  transcript = ''
  readonly #page: DocsPage
  readonly #reader: Reader
  readonly #pty: pty.IPty
  readonly #ids = new ExampleIds()
  #output = ''
  #changedMs = performance.now()

  constructor(page: DocsPage, reader: Reader) {
    this.#page = page
    this.#reader = reader
    this.#pty = pty.spawn('/bin/bash', ['--noprofile', '--norc', '--noediting', '-i'], {
      cols: COLUMNS,
      rows: 24,
      cwd: reader.home.path('code/shop'),
      ...reader.home.user,
      env: { ...reader.environment, PS1: '', PS2: '' },
    })
    this.#pty.onData((data) => {
      this.#output += data
      this.#changedMs = performance.now()
    })
  }

  async run(): Promise<void> {
    this.#type(`unset HISTFILE; set +H; PS2=; stty -echo; ${MARK_COMMAND}; PS1=\r`)
    await this.#waitFor(() => MARK.test(this.#output))
    const steps = this.#page.blocks.flatMap((block) => block.steps)
    for (const [at, step] of steps.entries()) if (!(await this.#runStep(step, steps[at + 1]))) return
  }

  /** Returns `false` when the terminal is no longer usable. */
  async #runStep(step: DocsStep, next: DocsStep | undefined): Promise<boolean> {
    this.#output = ''
    const command = this.#ids.resolve(this.#reader.withModelAddress(step.command))
    this.#type(`${command.replaceAll('\n', '\r')}\r`)
    const answers = step.expected.flatMap((line) => /\[(?:y\/N|Y\/n)\] (\S+)$/.exec(line)?.[1] ?? [])
    let isInterrupted = false
    let isKeyTyped = false
    const ended = await this.#waitFor(() => {
      const lines = this.#lines(step)
      if (answers.length > 0 && /\[(?:y\/N|Y\/n)\]$/.test(lines.at(-1) ?? ''))
        this.#type(`${answers.shift()}\r`)
      if (!isKeyTyped && /^ *value of \w+ \(not shown\):$/.test(lines.at(-1) ?? '')) {
        isKeyTyped = true
        this.#type(`${API_KEY}\r`)
      }
      if (step.interruptAfter !== undefined && !isInterrupted) {
        if (firstMissing(step.expected.slice(0, step.interruptAfter), lines) !== undefined) return false
        isInterrupted = true
        this.#type('\x03')
      }
      return MARK.test(this.#output) || this.#isAtPrompt(next)
    })
    const lines = this.#lines(step)
    const output = lines.join('\n')
    this.transcript += `${step.prompt}${step.command}\n${output}${output && '\n'}`
    const where = `${this.#page.file}:${step.line}`
    const fail = (problem: string) =>
      this.problems.push(`${where}: ${problem}\n  ${step.prompt}${command}\n${indent(output)}`)
    if (!ended) {
      fail(`the command did not end in ${STEP_MS / 1000} s`)
      return false
    }
    const missing = firstMissing(step.expected, lines)
    if (missing !== undefined) fail(`the output has no line (in this order)\n    ${missing.trim()}\n  but:`)
    this.#ids.learn(step.expected, lines)
    const code = MARK.exec(this.#output)?.[1]
    if (code !== undefined && step.interruptAfter === undefined && Number(code) !== step.exit)
      fail(`exit code ${code} instead of ${step.exit}`)
    if (code === undefined && step.exit !== 0) fail('an exit code is known only of a command after "$ "')
    const isInside = code === undefined
    if (next !== undefined && isInside !== next.isInside) {
      fail(
        `the next command is typed ${next.isInside ? 'in a sandbox' : 'outside'}, but the terminal is not there`,
      )
      return false
    }
    if (next?.isInside && this.#lastLine().trim() !== next.prompt.trim())
      fail(`the prompt in the sandbox is "${this.#lastLine().trim()}", not "${next.prompt.trim()}"`)
    return true
  }

  /** Returns the output of the command, without the typed text and the next prompt. */
  #lines(step: DocsStep): string[] {
    const [own = ''] = this.#output.split(MARK, 1)
    const lines = renderScreen(own).split('\n')
    // A sandbox's terminal echoes the typed text.
    if (step.isInside) lines.shift()
    if (isPrompt(lines.at(-1))) lines.pop()
    while (lines.at(-1) === '') lines.pop()
    return lines.map((line) => this.#reader.hideFolders(line))
  }

  #isAtPrompt(next: DocsStep | undefined): boolean {
    const quietMs = next?.isInside ? QUIET_MS : LONG_QUIET_MS
    return performance.now() - this.#changedMs >= quietMs && isPrompt(this.#lastLine())
  }

  #lastLine(): string {
    return renderScreen(this.#output).split('\n').at(-1)!
  }

  #type(text: string): void {
    this.#pty.write(text)
  }

  async #waitFor(isDone: () => boolean): Promise<boolean> {
    for (const endsMs = performance.now() + STEP_MS; ; ) {
      if (isDone()) return true
      if (performance.now() > endsMs) return false
      await sleep(POLL_MS)
    }
  }

  close(): void {
    try {
      // The shell passes the hang-up signal on to its background jobs.
      this.#pty.kill('SIGHUP')
    } catch {
      // The shell has already exited.
    }
  }
}

function isPrompt(line: string | undefined): boolean {
  return line !== undefined && /^ ?[\w.-]+ [~/]\S* [$#]$/.test(line)
}

const indent = (text: string) => text.replace(/^/gm, '    ')

async function main(args: readonly string[]): Promise<void> {
  const isShown = args.includes('--show')
  const files = args.filter((each) => each !== '--show')
  if (files.length === 0) {
    process.stderr.write('usage: node test/docs-page.ts [--show] PAGE...\n')
    process.exitCode = 2
    return
  }
  const removeRunFolder = runFolderSetup()
  // The same cache as for the workers of the tests, in which supervisors find compiled code.
  enableCompileCache(process.env.NODE_COMPILE_CACHE)
  let stopEngine: (() => Promise<void>) | undefined
  try {
    builtCraikSetup()
    const pages = files.map((file) => parsePage(file, readFileSync(file, 'utf8')))
    if (pages.some(({ needs }) => needs.docker)) {
      const { default: engineSetup } = await import('./engine-setup.ts')
      stopEngine = await engineSetup()
      // The engine prepares the image in the background.
      const { imageIsReady } = await import('./engine-ready.ts')
      await imageIsReady()
    }
    for (const file of files) {
      const { problems, transcript } = await runPage(resolve(file))
      if (isShown) process.stdout.write(`${transcript}\n`)
      for (const problem of problems) process.stdout.write(`${problem}\n\n`)
      process.stdout.write(`${file}: ${problems.length === 0 ? 'ok' : `${problems.length} problems`}\n`)
      if (problems.length > 0) process.exitCode = 1
    }
  } finally {
    await stopEngine?.()
    removeRunFolder?.()
  }
}

if (import.meta.main) await main(process.argv.slice(2))
