/** `craik run-headless` in a pipe: its exit code and its record say that the command was ended. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { builtMain, environmentOf, NODE, run, TestHome } from '../craik.ts'

let home: TestHome
beforeAll(async () => {
  home = new TestHome()
  await home.json(['sandbox', 'create', '--name', 'octo-sandbox'])
})
afterAll(async () => {
  await home.run(['sandbox', 'delete', '--all', '--yes'])
  await home.run(['supervisor', 'stop'])
  home[Symbol.dispose]()
})

it('exits with 141 if the reader of its output exits, as in | head', async () => {
  const script = '"$0" "$@" | head -1; echo "$PIPESTATUS"'
  const args = [NODE, builtMain(), 'run-headless', 'sh', '-c', 'while echo again; do sleep 0.1; done']
  const env = { ...environmentOf(home), SANDBOX_LOGIN: 'octo' }
  const { stdout, stderr } = await run('bash', ['-c', script, ...args], { cwd: home.folder, env })
  expect(stdout, stderr).toBe('again\n141\n')
  const runs = home.path('inbox/headless-runs')
  const [saved] = readdirSync(runs)
  expect(readFileSync(join(runs, saved!, 'exit_code'), 'utf8')).toBe('141\n')
})
