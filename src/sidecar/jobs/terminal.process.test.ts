import { readFileSync } from 'node:fs'
import type { ClientHttp2Stream } from 'node:http2'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FRAME, FrameReader } from '../../lib/frames.ts'
import { LIMITS, type TerminalSpec } from '../protocol.ts'
import { TestHost, until } from '../sidecar.fixture.ts'

let host: TestHost
beforeAll(async () => {
  host = await TestHost.start()
})
afterAll(async () => {
  await host[Symbol.asyncDispose]()
})

const spec = (script: string, more: object = {}): TerminalSpec => ({
  kind: 'terminal',
  argv: ['sh', '-c', script],
  cols: 80,
  rows: 24,
  ...more,
})

describe('a terminal', () => {
  it('is a real terminal, has the requested size, and reports the exit code', async () => {
    const { stdout, result } = await host.run(
      spec('tty; stty size; echo $TERM; exit 7', { cols: 101, rows: 33 }),
    )
    expect(stdout).toMatch(/^\/dev\/pts\/\d+\r\n33 101\r\nxterm-256color\r\n$/)
    expect(result).toMatchObject({ outcome: 'exited', exitCode: 7, signal: null })
  })

  it("lets a program continue that closes it, and reports that program's exit code", async () => {
    const { stdout, result } = await host.run(
      spec('exec 0<&- 1>&- 2>&-; sleep 0.5; (echo again) >/dev/tty; exit 7'),
    )
    expect(stdout).toBe('again\r\n')
    expect(result).toMatchObject({ outcome: 'exited', exitCode: 7, signal: null })
  })

  it('echoes typed text, and accepts a new size', async () => {
    const screen = await Screen.open(spec('stty size; read a; echo "got $a"; stty size; read b'))
    await screen.shows('24 80\r\n')
    await screen.type('hello\r')
    await screen.shows('hello\r\ngot hello\r\n24 80\r\n')
    expect((await host.ask('POST', `/jobs/${screen.id}/resize`, { cols: 132, rows: 50 })).status).toBe(200)
    await screen.type('\r')
    const resized = await Screen.open(
      spec('trap "stty size; exit" WINCH; echo ready; while :; do sleep 0.05; done'),
    )
    await resized.shows('ready')
    await host.ask('POST', `/jobs/${resized.id}/resize`, { cols: 132, rows: 50 })
    await resized.shows('50 132')
  })

  it('sends Ctrl-C to the foreground program', async () => {
    const screen = await Screen.open(
      spec('trap "echo interrupted; exit 4" INT; echo ready; while :; do sleep 0.1; done'),
    )
    await screen.shows('ready')
    await screen.type('\x03')
    await screen.shows('interrupted')
    await until(() => screen.ended)
  })

  it('drops its oldest output when there is no reader, returns a gap for it, and never waits', async () => {
    const id = await host.start(spec('head -c 3000000 /dev/zero | tr "\\\\0" x; echo; echo last'))
    await until(async () => (await status(id)).state === 'ended')
    const { frames, stdout } = await host.output(id)
    expect(frames[0]?.type).toBe(FRAME.gap)
    const { from, to } = JSON.parse(frames[0]!.payload.toString())
    expect(from).toBe(0)
    expect((await status(id)).first).toBe(to)
    expect(stdout.endsWith('x\r\nlast\r\n')).toBe(true)
    expect(stdout.length).toBeLessThanOrEqual(LIMITS.terminalMemoryBytes)
  })

  it('hangs up when it is deleted, and kills programs that ignore that', async () => {
    const screen = await Screen.open(spec('trap "" HUP TERM; sleep 1000 & echo "pid $!"; wait'))
    await screen.shows('\r\n')
    const pid = Number(/pid (\d+)/.exec(screen.text)?.[1])
    await host.ask('DELETE', `/jobs/${screen.id}`)
    expect(isRunning(pid)).toBe(false)
  })

  it('is not inherited by other programs', async () => {
    const screen = await Screen.open(spec('echo open; sleep 100'))
    await screen.shows('open')
    const list = 'ls -l /proc/self/fd /proc/$$/fd'
    const child = await host.run({ kind: 'exec', argv: ['sh', '-c', list] })
    expect(child.stdout).not.toMatch(/ptmx|pts/)
    const other = await host.run(spec(list))
    expect(other.stdout).not.toContain('ptmx')
    await host.ask('DELETE', `/jobs/${screen.id}`)
  })

  it('reports a program that is missing', async () => {
    expect((await host.run({ ...spec(''), argv: ['/no/such'] })).result).toMatchObject({
      outcome: 'not_started',
      error: 'ENOENT',
    })
    expect((await host.run({ ...spec(''), argv: ['/etc/passwd'] })).result).toMatchObject({ error: 'EACCES' })
  })

  it('makes the kernel kill its programs first when memory runs out', async () => {
    expect((await host.run(spec('sleep 0.5; cat /proc/self/oom_score_adj'))).stdout).toBe('1000\r\n')
  })

  it('runs a program that draws on the whole screen', async () => {
    const screen = await Screen.open({ ...spec(''), argv: ['top', '-d', '0.2'] })
    await screen.shows('load average')
    await screen.type('q')
    await until(() => screen.ended)
  })
})

/** Collects the output that a user would see, as far as the tests need it. */
class Screen {
  readonly id: string
  text = ''
  ended = false
  #typed = 0

  private constructor(id: string, stream: ClientHttp2Stream) {
    this.id = id
    const reader = new FrameReader()
    stream.on('data', (chunk: Buffer) => {
      for (const { type, payload } of reader.push(chunk)) {
        if (type === FRAME.stdout) this.text += payload.toString()
        if (type === FRAME.exit) this.ended = true
      }
    })
  }

  static async open(spec: TerminalSpec): Promise<Screen> {
    const id = await host.start(spec)
    const stream = host.request('GET', `/jobs/${id}/output`)
    stream.end()
    return new Screen(id, stream)
  }

  async type(text: string): Promise<void> {
    await host.ask('POST', `/jobs/${this.id}/input?offset=${this.#typed}`, Buffer.from(text))
    this.#typed += text.length
  }

  async shows(text: string): Promise<void> {
    await until(() => this.text.includes(text))
  }
}

async function status(id: string): Promise<{ state: string; first: number }> {
  return (await host.json('GET', `/jobs/${id}`)).value
}

function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
