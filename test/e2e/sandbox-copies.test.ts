/** Copies that do not go well: told, ended inside too, and nothing left out in silence. */
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
/** As soon as there is none, and long before the inside gives one up that nobody reads. */
async function runningJobs(): Promise<number> {
  const endsMs = performance.now() + 15_000
  for (;;) {
    const { running_jobs } = await home.json<SandboxBody>(['sandbox', 'show', 'parser'])
    if (running_jobs === 0 || performance.now() > endsMs) return running_jobs
  }
}

describe('a copy out', () => {
  it('beyond --max-copy is an error each time, and ends inside too', async () => {
    // Where in the stream it is given up differs from one time to the next.
    for (let tries = 0; tries < 8; tries++) {
      const { code, stderr } = await home.run(['sandbox', 'cp', 'parser:large', home.path(`large-${tries}`)])
      expect(code).toBe(ERRORS.too_large.exit)
      expect(stderr).toMatch(/larger than 16 GB; files already written remain\n.*--max-copy/)
    }
    expect(await runningJobs()).toBe(0)
  })

  it('that cannot be written names the file and the reason', async () => {
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

  it('never replaces a pipe, neither by a file nor by one in a folder', async () => {
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

  it('refuses a file of holes by what it says it is long, names it, and leaves nothing of it', async () => {
    await inside('sh', '-c', 'mkdir -p holes && truncate -s 1T holes/huge')
    const { code, stderr } = await home.run(['sandbox', 'cp', 'parser:holes', home.path('holes')])
    expect([code, stderr]).toEqual([ERRORS.too_large.exit, expect.stringContaining('holes/huge')])
    expect(readdirSync(home.path('holes'))).toEqual([])
    await inside('rm', '-r', 'holes')
  })

  it('that is interrupted ends inside too', async () => {
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

  it('names the sockets that it leaves out', async () => {
    const { code, stdout, stderr } = await home.run(['sandbox', 'cp', 'parser:small', home.path('small')])
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { files: 1, skipped_count: 1 }])
    expect(stderr).toContain('"small/socket" (socket)')
  })

  it('to - is the file on standard output, and nothing else', async () => {
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
  ])('of %j can be typed', async (args, hint) => {
    const { code, stderr } = await home.run(['sandbox', ...args])
    expect(code).not.toBe(0)
    expect(stderr).toContain(hint)
  })
})

it('a terminal that is attached again types nothing by itself', async () => {
  const question = '\u001b[c'
  const answer = '\u001b[?1;2c'
  const program = ['sh', '-c', `printf '${question}'; while read -r line; do echo "got <$line>"; done`]
  using first = new Terminal(home, ['sandbox', 'shell', 'parser', '--', ...program], 80, 24)
  await first.says(question)
  first.types('\x1dd')
  expect(await first.exited).toBe(0)
  const job = /--attach (job_\w+)/.exec(first.screen)![1]!

  using second = new Terminal(home, ['sandbox', 'shell', 'parser', '--attach', job], 80, 24)
  await second.says(question)
  second.types(answer)
  await second.until(async () => {
    second.types('typed\r')
    await second.says('got <typed>', 1000)
  })
  expect(second.screen).not.toContain('1;2c')
  second.types('\x04')
  expect(await second.exited).toBe(0)
})
