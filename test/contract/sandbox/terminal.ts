/** Terminals: interactive programs work in them, and a terminal without a client keeps its newest output. */
import { describe, expect, it } from 'vitest'
import { FRAME } from '../../../src/lib/frames.ts'
import type { JobRequestBody } from '../../../src/operator/api/requests.ts'
import { type GetInstance, newJobId, readOutput, startDetached, waitForJobEnd } from './instance.ts'
import { TerminalWindow } from './terminal-window.ts'

export function terminalContract(getInstance: GetInstance): void {
  describe('a terminal', () => {
    it('echoes typed text, and ends with the exit code of its program', async () => {
      await using window = new TerminalWindow(getInstance(), ['sh'])
      window.types('echo "<$((20 + 22))>"\r')
      await window.shows('echo "<$((20 + 22))>"')
      await window.shows('<42>')
      window.types('tty; exit 5\r')
      const { result } = await window.ended
      expect(window.text).toMatch(/\/dev\/pts\/\d/)
      expect(result).toMatchObject({ outcome: 'exited', exitCode: 5 })
    })

    it('has the requested size, and reports a change to its program', async () => {
      await using window = new TerminalWindow(getInstance(), ['sh'], { cols: 91, rows: 37 })
      window.types('trap "stty size; echo was-told" WINCH; stty size\r')
      // Waits until the shell is in the foreground again, because only the foreground process gets the signal.
      await window.shows('37 91\r\n$ ')
      await window.resize(102, 40)
      window.types(':\r')
      await window.shows('was-told\r\n')
      expect(window.text).toContain('40 102')
    })

    it('passes on colors and all other bytes unchanged', async () => {
      await using window = new TerminalWindow(getInstance(), [
        'sh',
        '-c',
        String.raw`stty -opost; echo "$TERM"; printf '\033[31mred\033[0m \377\000\200 \342\202\254'`,
      ])
      await window.ended
      const sent = '\x1b[31mred\x1b[0m \xff\0\x80 \xe2\x82\xac'
      expect(window.text).toBe(`xterm-256color\n${sent}`)
    })

    it('turns Ctrl-C into a signal to the foreground process, and Ctrl-D into the end of input', async () => {
      await using window = new TerminalWindow(getInstance(), ['sh'])
      window.types('cat; echo "cat ended: $?"\r')
      window.types('ready\r')
      await window.shows('ready', 2)
      window.types('\x03')
      window.types('echo after\r')
      await window.shows('after\r\n')
      window.types('\x04')
      expect((await window.ended).result).toMatchObject({ outcome: 'exited' })
    })

    it('runs vim, which writes a file', async () => {
      await using window = new TerminalWindow(getInstance(), ['vi', 'by-vim.txt'])
      await window.shows('by-vim.txt')
      window.types('ihello from vim')
      await window.shows('vim', 2)
      window.types('\x1b')
      window.types(':wq\r')
      expect((await window.ended).result).toMatchObject({ outcome: 'exited', exitCode: 0 })
      expect((await getInstance().box.exec(['cat', 'by-vim.txt'])).stdout).toBe('hello from vim\n')
    })

    it('runs top, which refreshes by itself', async () => {
      await using window = new TerminalWindow(getInstance(), ['top', '-d', '0.2'])
      await window.shows('load average', 4)
      window.types('q')
      expect((await window.ended).result).toMatchObject({ outcome: 'exited', exitCode: 0 })
    })

    it('without a client drops its oldest output, and reports the gap', async () => {
      const jobId = newJobId()
      const spec: JobRequestBody = { kind: 'terminal', argv: ['seq', '1', '600000'], cols: 80, rows: 24 }
      await startDetached(getInstance(), spec, jobId)
      await waitForJobEnd(getInstance(), jobId)
      const { gaps, frames, ended } = await readOutput(getInstance(), jobId, 0)
      expect(ended).toBe(true)
      expect(gaps).toHaveLength(1)
      expect(gaps[0]).toMatchObject({ from: 0, to: expect.any(Number) })
      const shown = frames.filter(({ type }) => type === FRAME.stdout).map(({ payload }) => payload)
      const lines = Buffer.concat(shown).toString().split('\r\n').slice(1, -1)
      expect(lines.at(-1)).toBe('600000')
      const first = Number(lines[0])
      expect(first).toBeGreaterThan(1)
      expect(lines).toEqual(Array.from({ length: 600_000 - first + 1 }, (_, n) => String(first + n)))
    })

    it('gets a hang-up signal when it is cancelled', async () => {
      const window = new TerminalWindow(getInstance(), ['sh', '-c', 'trap "" HUP INT; echo up; sleep 985'])
      await window.shows('up')
      await window[Symbol.asyncDispose]()
      const left = await getInstance().client.sandboxes.processes(getInstance().box.id)
      expect(left.filter(({ name }) => name === 'sleep')).toEqual([])
    })
  })
}
