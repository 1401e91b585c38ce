/** Copies that fail: Craik reports them, ends them in the sandbox too, and omits nothing silently. */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import type { SandboxBody } from '../../src/operator/api/bodies.ts'
import { builtMain, environmentOf, NODE, ROOT, run, TestHome } from '../craik.ts'
import { startCraik, Terminal } from './interactive-user.ts'

const PREPARE = `
mkdir -p large small
truncate -s 40G large/hole
for name in 1 2 3 4 5; do echo x > large/$name; done
head -c 20000000 /dev/zero > small/zeros
/opt/craik/node -e 'require("net").createServer().listen("small/socket", () => process.kill(process.pid, 9))'
echo content > file
`

let home: TestHome

beforeAll(async () => {
  home = new TestHome()
  await home.json(['sandbox', 'create', '--name', 'parser'])
  await home.run(['sandbox', 'exec', 'parser', '--', 'sh', '-c', PREPARE])
})
afterAll(async () => {
  await home.run(['sandbox', 'delete', '--all', '--yes'])
  await home.run(['supervisor', 'stop'])
  home[Symbol.dispose]()
})

const inside = (...argv: string[]) => home.run(['sandbox', 'exec', 'parser', '--', ...argv])
/**
 * Waits until no job runs. The limit is far below the time after which the sidecar gives up a job that nothing reads.
 */
async function runningJobs(): Promise<number> {
  const endsMs = performance.now() + 15_000
  for (;;) {
    const { running_jobs } = await home.json<SandboxBody>(['sandbox', 'show', 'parser'])
    if (running_jobs === 0 || performance.now() > endsMs) return running_jobs
  }
}

describe('a copy out of the sandbox', () => {
  it('larger than --max-copy fails each time, and ends in the sandbox too', async () => {
    // The copy stops at a different position of the stream each time.
    for (let tries = 0; tries < 8; tries++) {
      const { code, stderr } = await home.run(['sandbox', 'cp', 'parser:large', home.path(`large-${tries}`)])
      expect(code).toBe(ERRORS.too_large.exit)
      expect(stderr).toMatch(/larger than 16 GB; files already written remain\n.*--max-copy/)
    }
    expect(await runningJobs()).toBe(0)
  })

  it('that cannot be written reports the file and the reason', async () => {
    mkdirSync(home.path('limited'))
    const command = [NODE, builtMain(), 'sandbox', 'cp', 'parser:small', home.path('limited')]
    const { code, stderr } = await run('bash', ['-c', 'ulimit -f 2000; exec "$0" "$@"', ...command], {
      env: environmentOf(home),
    })
    expect(code).toBe(ERRORS.too_large.exit)
    expect(stderr).toMatch(/cannot unpack "small\/zeros" into .*limited: .*EFBIG/)
    expect(readdirSync(home.path('limited/small')).filter((name) => name.startsWith('.craik'))).toEqual([])
    expect(await runningJobs()).toBe(0)
  })

  it('never replaces a pipe with a file, neither by name nor in a folder', async () => {
    mkdirSync(home.path('pipes'))
    await run('mkfifo', [home.path('pipes/a')], { env: { PATH: process.env.PATH! } })
    await inside('sh', '-c', 'mkdir -p some && echo x > some/a && echo y > some/b')
    const file = await home.run(['sandbox', 'cp', 'parser:some/a', home.path('pipes/a')])
    expect(file).toMatchObject({
      code: ERRORS.conflict.exit,
      stderr: expect.stringContaining('is a pipe, not a regular file'),
    })
    const folder = await home.run(['sandbox', 'cp', 'parser:some/.', home.path('pipes')])
    expect(folder).toMatchObject({ code: 0, stderr: expect.stringContaining('skipped 1 entry') })
    expect(lstatSync(home.path('pipes/a')).isFIFO()).toBe(true)
    expect(readFileSync(home.path('pipes/b'), 'utf8')).toBe('y\n')
  })

  it('refuses a sparse file by its declared size, names it, and leaves nothing of it', async () => {
    await inside('sh', '-c', 'mkdir -p holes && truncate -s 1T holes/huge')
    const { code, stderr } = await home.run(['sandbox', 'cp', 'parser:holes', home.path('holes')])
    expect([code, stderr]).toEqual([ERRORS.too_large.exit, expect.stringContaining('holes/huge')])
    expect(readdirSync(home.path('holes'))).toEqual([])
    await inside('rm', '-r', 'holes')
  })

  it('that is interrupted ends in the sandbox too', async () => {
    const copying = startCraik(home, [
      'sandbox',
      'cp',
      '--max-copy',
      '64g',
      'parser:large',
      home.path('left'),
    ])
    while (!existsSync(home.path('left'))) await new Promise((done) => setTimeout(done, 20))
    copying.child.kill('SIGINT')
    expect((await copying.ended).code).toBe(ERRORS.interrupted.exit)
    expect(await runningJobs()).toBe(0)
  })

  it('reports the sockets that it skips', async () => {
    const { code, stdout, stderr } = await home.run(['sandbox', 'cp', 'parser:small', home.path('small')])
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { files: 1, skipped_count: 1 }])
    expect(stderr).toContain('"small/socket" (socket)')
  })

  it('to - writes the file to standard output, and nothing else', async () => {
    expect(await home.run(['sandbox', 'cp', 'parser:file', '-'])).toMatchObject({
      code: 0,
      stdout: 'content\n',
      stderr: '',
    })
    expect((await home.run(['sandbox', 'cp', 'parser:small', '-'])).code).toBe(ERRORS.usage.exit)
  })
})

describe('hints', () => {
  it.each([
    [['cp', join(ROOT, 'package.json'), 'parser:none/x'], 'craik sandbox exec parser -- mkdir -p none'],
    [['signal', 'parser', '99999'], 'craik sandbox ps parser'],
    [['exec', 'parser', 'ls', '-la'], 'put -- before the command:  craik sandbox exec parser -- ls -la'],
    [['exec', 'parser', '--cwd', '/nope', '--', 'ls'], 'no folder /nope in the sandbox'],
    [['exec', 'parser', '--', ''], 'craik sandbox exec parser -- npm test'],
  ])('for %j say what to type', async (args, hint) => {
    const { code, stderr } = await home.run(['sandbox', ...args])
    expect(code).not.toBe(0)
    expect(stderr).toContain(hint)
  })
})

it('attaching to a terminal again sends no input by itself', async () => {
  const question = '\u001b[c'
  const answer = '\u001b[?1;2c'
  const program = ['sh', '-c', `printf '${question}'; while read -r line; do echo "got <$line>"; done`]
  using first = new Terminal(home, ['sandbox', 'shell', 'parser', '--', ...program], 80, 24)
  await first.says(question)
  first.typeText('\x1dd')
  expect(await first.exited).toBe(0)
  const job = /--attach (job_\w+)/.exec(first.screen)![1]!

  using second = new Terminal(home, ['sandbox', 'shell', 'parser', '--attach', job], 80, 24)
  await second.says(question)
  second.typeText(answer)
  await second.until(async () => {
    second.typeText('typed\r')
    await second.says('got <typed>', 1000)
  })
  expect(second.screen).not.toContain('1;2c')
  second.typeText('\x04')
  expect(await second.exited).toBe(0)
})
