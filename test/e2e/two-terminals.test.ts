/** Two people at one terminal inside a real sandbox: who comes later has it, and who was there is told at once. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { canBe, IDENTITIES, type LiveSandbox, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'
import { Terminal } from './interactive-user.ts'

/** For so long after the past of a terminal was shown, what begins with ESC is not taken for typed. */
const ANSWERS_MS = 600

/** Says so whether the terminal has the settings of before. */
const SCRIPT =
  'stty -a > "$HOME/before.$$"; "$0" "$@"; echo "exit:$?"; stty -a | cmp - "$HOME/before.$$" && echo same-settings; sleep 600'

for (const identity of IDENTITIES) {
  const reason = canBe(identity) ? '' : ` (${ROOT_IS_NEEDED})`
  describe.skipIf(!canBe(identity))(`two terminals as ${identity}${reason}`, () => {
    let home: SandboxHome
    let sandbox: LiveSandbox
    beforeAll(async () => {
      home = await SandboxHome.open({ identity })
      sandbox = await home.create(['--name', 'shared'])
    })
    afterAll(() => home?.[Symbol.asyncDispose]())

    const open = (...more: string[]) =>
      new Terminal(home, ['sandbox', 'shell', 'shared', ...more], 90, 30, SCRIPT)
    const jobOf = async () => {
      const jobs = await home.client().jobs.list(sandbox.id)
      return jobs.find(({ kind, state }) => kind === 'terminal' && state === 'running')!.id
    }
    const expectedOutput = (job: string) => [
      `craik: another client took over the input of ${job}`,
      `craik sandbox shell ${sandbox.id} --attach ${job}`,
      `exit:${ERRORS.conflict.exit}`,
      'same-settings',
    ]

    it('the first is told at once, leaves with its settings, and never takes the input back', async () => {
      using first = open()
      await first.says('$')
      first.types('cat > typed\r')
      await first.says('cat > typed')
      first.types('one\r')
      await first.says('one\r\n')
      const job = await jobOf()

      // Nobody types: coming is enough.
      using second = open('--attach', job)
      for (const text of expectedOutput(job)) await first.says(text)
      first.types('lost\r')
      await second.says('one\r\n')
      await sleep(ANSWERS_MS)
      second.types('two\r')
      await second.says('two\r\n')
      await killSupervisor(home)
      second.types('three\r')
      await second.says('three\r\n')
      second.types('\x04')
      second.types('cat typed; echo all-of-it; exit 7\r')
      await second.says('exit:7')
      await second.says('same-settings')
      expect(second.screen).toContain('one\r\ntwo\r\nthree\r\nall-of-it')
      expect(second.screen).not.toContain('lost')
      expect(first.screen).not.toContain('two')
    })

    it('the first does not come back when it was away with the supervisor while the second came', async () => {
      using first = open('--', 'sh', '-c', 'echo up; exec cat')
      await first.says('up')
      first.types('one\r')
      await first.says('one\r\none\r\n')
      const job = await jobOf()
      await killSupervisor(home)
      using second = open('--attach', job)
      for (const text of expectedOutput(job)) await first.says(text)
      await second.says('one\r\none\r\n')
      await sleep(ANSWERS_MS)
      second.types('two\r')
      await second.says('two\r\ntwo\r\n')
      second.types('\x04')
      await second.says('exit:0')
      await second.says('same-settings')
    })

    it('each takes it back when asked to, and what runs inside never sees it', async () => {
      let last = open('--', 'sh', '-c', 'echo up; exec cat')
      try {
        await last.says('up')
        last.types('0\r')
        await last.says('0\r\n0\r\n')
        const job = await jobOf()
        for (let turn = 1; turn <= 4; turn++) {
          using before = last
          last = open('--attach', job)
          for (const text of expectedOutput(job)) await before.says(text)
          await last.says(`${turn - 1}\r\n${turn - 1}\r\n`)
          await sleep(ANSWERS_MS)
          last.types(`${turn}\r`)
          await last.says(`${turn}\r\n${turn}\r\n`)
        }
        last.types('\x04')
        await last.says('exit:0')
      } finally {
        last[Symbol.dispose]()
      }
    })
  })
}

async function killSupervisor(home: SandboxHome): Promise<void> {
  const { pid } = await home.json<{ pid: number }>(['supervisor', 'status', '--format', 'json'])
  // Ours, and no other that has its number by now.
  expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).toContain(home.home)
  process.kill(pid, 'SIGKILL')
}
