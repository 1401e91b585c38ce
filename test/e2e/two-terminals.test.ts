/**
 * Two users at one terminal in a real sandbox. The later one gets the input, and the earlier one is notified at once.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { canBe, IDENTITIES, type LiveSandbox, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'
import { Terminal } from './interactive-user.ts'

/** For so long after the replay of a terminal, Craik does not treat input that begins with ESC as typed. */
const ANSWERS_MS = 600

/** Reports whether the settings of the terminal were restored. */
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

    it('the first one is notified at once, exits with its settings restored, and never gets the input again', async () => {
      using first = open()
      await first.says('$')
      first.typeText('cat > typed\r')
      await first.says('cat > typed')
      first.typeText('one\r')
      await first.says('one\r\n')
      const job = await jobOf()

      // Attaching is enough. The second user types nothing.
      using second = open('--attach', job)
      for (const text of expectedOutput(job)) await first.says(text)
      first.typeText('lost\r')
      await second.says('one\r\n')
      await sleep(ANSWERS_MS)
      second.typeText('two\r')
      await second.says('two\r\n')
      await killSupervisor(home)
      second.typeText('three\r')
      await second.says('three\r\n')
      second.typeText('\x04')
      second.typeText('cat typed; echo all-of-it; exit 7\r')
      await second.says('exit:7')
      await second.says('same-settings')
      expect(second.screen).toContain('one\r\ntwo\r\nthree\r\nall-of-it')
      expect(second.screen).not.toContain('lost')
      expect(first.screen).not.toContain('two')
    })

    it('the first one does not reconnect if the second one attached while the supervisor was gone', async () => {
      using first = open('--', 'sh', '-c', 'echo up; exec cat')
      await first.says('up')
      first.typeText('one\r')
      await first.says('one\r\none\r\n')
      const job = await jobOf()
      await killSupervisor(home)
      using second = open('--attach', job)
      for (const text of expectedOutput(job)) await first.says(text)
      await second.says('one\r\none\r\n')
      await sleep(ANSWERS_MS)
      second.typeText('two\r')
      await second.says('two\r\ntwo\r\n')
      second.typeText('\x04')
      await second.says('exit:0')
      await second.says('same-settings')
    })

    it('each one gets the input again by attaching again, and the program in the sandbox never notices', async () => {
      let last = open('--', 'sh', '-c', 'echo up; exec cat')
      try {
        await last.says('up')
        last.typeText('0\r')
        await last.says('0\r\n0\r\n')
        const job = await jobOf()
        for (let turn = 1; turn <= 4; turn++) {
          using before = last
          last = open('--attach', job)
          for (const text of expectedOutput(job)) await before.says(text)
          await last.says(`${turn - 1}\r\n${turn - 1}\r\n`)
          await sleep(ANSWERS_MS)
          last.typeText(`${turn}\r`)
          await last.says(`${turn}\r\n${turn}\r\n`)
        }
        last.typeText('\x04')
        await last.says('exit:0')
      } finally {
        last[Symbol.dispose]()
      }
    })
  })
}

async function killSupervisor(home: SandboxHome): Promise<void> {
  const { pid } = await home.json<{ pid: number }>(['supervisor', 'status', '--format', 'json'])
  // Checks that the process is the supervisor of this home, and not another process that got its id.
  expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).toContain(home.home)
  process.kill(pid, 'SIGKILL')
}
