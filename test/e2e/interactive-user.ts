/** A user of `craik`: commands that run in the background, and a terminal to type in. */
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import * as pty from '@lydell/node-pty'
import { builtMain, type CommandResult, environmentOf, NODE, type TestHome } from '../craik.ts'

export interface Running {
  readonly child: ReturnType<typeof spawn>
  readonly ended: Promise<CommandResult>
  stdout(): string
  /** Waits until the command has printed the text. */
  waitForText(text: string): Promise<void>
}

/** Starts a command that runs while the test continues. */
export function startCraik(
  home: TestHome,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Running {
  const child = spawn(NODE, [builtMain(), ...args], {
    cwd: home.folder,
    env: { ...environmentOf(home), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const ended = new Promise<CommandResult>((done) =>
    child.once('close', (code) => done({ code, stdout, stderr })),
  )
  return {
    child,
    ended,
    stdout: () => stdout,
    async waitForText(text) {
      while (!stdout.includes(text)) {
        if (child.exitCode !== null) throw new Error(`it ended without saying ${text}: ${stdout}${stderr}`)
        await sleep(20)
      }
    },
  }
}

/** The home in which a user runs `craik`. `program` and `user` are set when they differ from those of the tests. */
interface UserHome {
  readonly folder: string
  readonly home: string
  readonly program?: { readonly node: string; readonly main: string }
  readonly user?: { readonly uid?: number; readonly gid?: number }
  /** The environment of `craik`, when it contains more than its home. */
  readonly environment?: Readonly<Record<string, string>>
}

/** A user at a terminal. */
export class Terminal implements Disposable {
  readonly #pty: pty.IPty
  readonly exited: Promise<number>
  screen = ''

  /** A script runs `craik …` with `"$0" "$@"`. */
  constructor(
    home: UserHome,
    args: readonly string[],
    cols: number,
    rows: number,
    script = 'exec "$0" "$@"',
  ) {
    const { node, main } = home.program ?? { node: NODE, main: builtMain() }
    this.#pty = pty.spawn('/bin/sh', ['-c', script, node, main, ...args], {
      cols,
      rows,
      cwd: home.folder,
      ...home.user,
      env: { ...(home.environment ?? environmentOf(home)), TERM: 'xterm-256color' },
    })
    this.#pty.onData((data) => {
      this.screen += data
    })
    this.exited = new Promise((done) => this.#pty.onExit(({ exitCode }) => done(exitCode)))
  }

  typeText(text: string): void {
    this.#pty.write(text)
  }

  resize(cols: number, rows: number): void {
    this.#pty.resize(cols, rows)
  }

  async says(text: string, timeoutMs = 60_000, read = (screen: string) => screen): Promise<void> {
    const retry = performance.now() + timeoutMs
    while (!read(this.screen).includes(text)) {
      if (performance.now() > retry) throw new Error(`the terminal never said ${text}:\n${this.screen}`)
      await sleep(20)
    }
  }

  /** Retries `work`, because a new terminal size takes a moment to arrive. */
  async until(work: () => Promise<void>): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        return await work()
      } catch (error) {
        if (tries > 20) throw error
      }
    }
  }

  [Symbol.dispose](): void {
    this.#pty.kill('SIGKILL')
  }
}
