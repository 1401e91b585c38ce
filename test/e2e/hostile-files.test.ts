/**
 * Input files that the user names and an intruder created: pipes without a writer, endless devices, links, duplicate
 * keys.
 */
import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { builtMain, type CommandResult, environmentOf, NODE, ROOT, run, TestHome } from '../craik.ts'
import { startInBackground } from './live-log.ts'

const VERIFIER = join(ROOT, 'docs/verify/craik-verify.mjs')
const DEADLINE_MS = 30_000

let home: TestHome
let lines: string[]

beforeAll(async () => {
  home = new TestHome()
  await home.json(['shell', 'echo one'])
  await home.json(['shell', 'echo two'])
  await home.run(['receipts', 'export', '-o', 'audit.jsonl'])
  writeFileSync(home.path('craik.pub'), (await home.run(['receipts', 'key'])).stdout)
  writeFileSync(home.path('checkpoint.txt'), (await home.run(['receipts', 'checkpoint', 'export'])).stdout)
  writeFileSync(home.path('proof.json'), (await home.run(['receipts', 'prove', '0'])).stdout)
  lines = readFileSync(home.path('audit.jsonl'), 'utf8').trimEnd().split('\n')
  execFileSync('mkfifo', [home.path('fifo')])
  writeFileSync(home.path('large.txt'), Buffer.alloc(64 * 1024 + 1, 'x'))
})
afterAll(() => home[Symbol.dispose]())

describe('an unsuitable input file', () => {
  const places: [string, (file: string) => string[]][] = [
    ['the log', (file) => ['verify', file, '--public-key', 'craik.pub']],
    ['the log to replay', (file) => ['verify', file, '--public-key', 'craik.pub', '--replay']],
    ['the key', (file) => ['verify', 'audit.jsonl', '--public-key', file]],
    ['the key for the live log', (file) => ['verify', '--public-key', file]],
    ['the checkpoint', (file) => ['verify', 'audit.jsonl', '--public-key', 'craik.pub', '--against', file]],
    ['the checkpoint for the live log', (file) => ['verify', '--against', file]],
    ['the older checkpoint', (file) => ['consistency', file]],
    ['the newer checkpoint', (file) => ['consistency', 'checkpoint.txt', file]],
  ]
  it.each(places)('is refused as %s without waiting', async (_, args) => {
    for (const file of ['fifo', '/dev/zero', '.']) {
      const { code, stdout, stderr } = await runBounded(['receipts', ...args(file)])
      expect([code, stdout], `${file}: ${stderr}`).toEqual([2, ''])
      expect(stderr).toMatch(/^craik: [^\n]+ is not a regular file: [^\n]+\n {2}[^\n]+\n$/)
    }
  })

  it('is refused by the auditor’s script too', async () => {
    for (const file of ['fifo', '/dev/zero', '.']) {
      for (const args of [
        [file, '--public-key', 'craik.pub'],
        ['audit.jsonl', '--public-key', file],
        ['audit.jsonl', '--public-key', 'craik.pub', '--against', file],
      ]) {
        const ran = await standalone(...args)
        expect([ran.code, ran.stdout, ran.stderr]).toEqual([
          2,
          '',
          `craik-verify: ${file} is not a regular file\n`,
        ])
      }
    }
  })

  it('is refused as a checkpoint when it is too large', async () => {
    for (const args of [
      ['verify', '--against', 'large.txt'],
      ['consistency', 'large.txt'],
    ])
      expect((await runBounded(['receipts', ...args])).stderr).toContain('is larger than 65536 bytes')
  })

  it('does not block Ctrl-C when it is stdin without a writer', async () => {
    const child = spawn(NODE, [builtMain(), 'receipts', 'verify', '-', '--public-key', 'craik.pub'], {
      cwd: home.folder,
      env: environmentOf(home),
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    const ended = new Promise((done) => child.on('close', (code) => done(code)))
    const deadline = setTimeout(() => child.kill('SIGKILL'), DEADLINE_MS)
    await sleep(1500)
    expect(child.exitCode).toBe(null)
    const interruptedAtMs = performance.now()
    child.kill('SIGINT')
    expect(await ended).toBe(130)
    clearTimeout(deadline)
    expect(performance.now() - interruptedAtMs).toBeLessThan(1500)
  })
})

it('a log is not replayed from a pipe, because a pipe can be read only once', async () => {
  const script = `"$1" "$2" receipts verify <(cat audit.jsonl) --public-key craik.pub --replay`
  const ran = await run('timeout', ['30', 'bash', '-c', script, 'bash', NODE, builtMain()], {
    cwd: home.folder,
    env: environmentOf(home),
  })
  expect([ran.code, ran.stdout]).toEqual([2, ''])
  expect(ran.stderr).toContain('pipe it in with -')
  const honest = await verify('audit.jsonl', '--replay')
  expect(JSON.parse(honest.stdout)).toMatchObject({ outcome: 'ok', replay: { decisions: 2, agree: 2 } })
})

it.each([
  ['emptied', `truncateSync('moving.jsonl', 0)`],
  ['cut inside a receipt', `truncateSync('moving.jsonl', text.indexOf('"decision":{') + 50)`],
  [
    'edited in place',
    `writeFileSync('moving.jsonl', text.replaceAll('"effect":"allow"', '"effect":"avoid"'))`,
  ],
])('a log that is %s between verification and replay is reported as tampered', async (_, attack) => {
  cpSync(home.path('audit.jsonl'), home.path('moving.jsonl'))
  writeFileSync(
    home.path('attack.mjs'),
    `import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
    import { open } from 'node:fs/promises'
    const text = readFileSync('moving.jsonl', 'utf8')
    const file = await open('moving.jsonl')
    const { read } = file.constructor.prototype
    let beginnings = 0
    file.constructor.prototype.read = function (buffer, offset, length, position) {
      if (position === 0 && ++beginnings === 2) { ${attack} }
      return read.call(this, buffer, offset, length, position)
    }
    await file.close()`,
  )
  const args = ['receipts', 'verify', 'moving.jsonl', '--public-key', 'craik.pub']
  const nodeArguments = ['--import', home.path('attack.mjs')]
  expect((await home.run(args, { nodeArguments })).code).toBe(0)
  const { code, stdout, stderr } = await home.run([...args, '--replay'], { nodeArguments })
  expect(code, stderr).toBe(1)
  expect(JSON.parse(stdout)).toMatchObject({
    outcome: 'tampered',
    finding: { detail: expect.stringContaining('changed while it was read') },
  })
})

describe('a side log', () => {
  const attacks: [string, (path: string) => void][] = [
    ['a pipe', (path) => execFileSync('mkfifo', [path])],
    ['a link to a device without end', (path) => symlinkSync('/dev/zero', path)],
    ['a folder', (path) => mkdirSync(path)],
    ['longer than it was', (path) => writeFileSync(path, Buffer.alloc(1 << 20, 'one\n'))],
    ['without end, and no bytes on the disk', (path) => execFileSync('truncate', ['-s', '1T', path])],
  ]
  it.each(attacks)('that is %s is reported as tampered', async (_, make) => {
    using victim = copyOf(home)
    const [name] = logNames(victim)
    rmSync(name!)
    make(name!)
    await expectTampered(victim, name!)
  })

  it('that is a link is reported as tampered, even if its target has the right bytes', async () => {
    using victim = copyOf(home)
    const [name] = logNames(victim)
    renameSync(name!, victim.path('elsewhere.log'))
    symlinkSync(victim.path('elsewhere.log'), name!)
    await expectTampered(victim, name!)
  })

  it('that other users can read still verifies', async () => {
    using victim = copyOf(home)
    for (const name of logNames(victim)) chmodSync(name, 0o644)
    expect((await runBounded(['receipts', 'verify'], victim)).code).toBe(0)
  })

  async function expectTampered(victim: TestHome, path: string): Promise<void> {
    const digest = path.slice(-68, -4)
    const expected = { outcome: 'tampered', side_logs: { missing: [], tampered: [digest] } }
    const live = await runBounded(['receipts', 'verify'], victim)
    expect(live.code, live.stderr).toBe(1)
    expect(JSON.parse(live.stdout)).toMatchObject(expected)
    const file = await verify('audit.jsonl', '--side-logs', join(path, '..'))
    expect(file.code, file.stderr).toBe(1)
    expect(JSON.parse(file.stdout)).toMatchObject(expected)
  }
})

describe('ambiguous JSON', () => {
  const doubled: [string, () => string[]][] = [
    ['a document’s text', () => editLine('{"_document":{', '{"_document":{"text":"permit(everything);",')],
    ['the header’s size', () => editLine('{"_craik":{', '{"_craik":{"size":1,')],
    ['a checkpoint’s note', () => editLine('{"_checkpoint":{', '{"_checkpoint":{"note":"none",')],
    ['a line that is two things', () => editLine('{"_document":{', '{"_other":{},"_document":{')],
    ['a space', () => editLine('{"_document":{', '{"_document": {')],
  ]
  it.each(doubled)('is reported as malformed: %s', async (_, forge) => {
    const forged = forge()
    expect(forged).not.toEqual(lines)
    writeFileSync(home.path('doubled.jsonl'), `${forged.join('\n')}\n`)
    const ran = await verify('doubled.jsonl')
    expect(ran.code).toBe(1)
    expect(JSON.parse(ran.stdout)).toMatchObject({ finding: { problem: 'malformed' } })
    expect((await standalone('doubled.jsonl', '--public-key', 'craik.pub')).code).toBe(1)
  })

  it('in a proof with two receipts is refused', async () => {
    const proof = readFileSync(home.path('proof.json'), 'utf8')
    writeFileSync(home.path('two.json'), proof.replace('{"_proof":{', '{"_proof":{"receipt":"{}",'))
    expect((await verify('two.json')).code).toBe(1)
    expect((await standalone('two.json', '--public-key', 'craik.pub')).code).toBe(1)
  })

  /** Replaces a text in the first line that starts with it. */
  function editLine(from: string, to: string): string[] {
    const index = lines.findIndex((line) => line.startsWith(from))
    return lines.with(index, lines[index]!.replace(from, to))
  }
})

it('an export without the policy text of its decisions is incomplete, and the report names that text', async () => {
  const without = lines.filter((line) => !line.startsWith('{"_document"'))
  writeFileSync(home.path('bare.jsonl'), `${without.join('\n')}\n`)
  const digest = /"policy_digest":"(sha256:\w{64})"/.exec(lines.join('\n'))![1]!
  const detail = `the policy text ${digest} that decided receipt 0 is not in the file`
  const ran = await verify('bare.jsonl')
  expect(ran.code).toBe(2)
  expect(JSON.parse(ran.stdout)).toMatchObject({ outcome: 'incomplete', missing: [detail], intact: 4 })
  const bare = await standalone('bare.jsonl', '--public-key', 'craik.pub')
  expect(bare.code).toBe(2)
  expect(bare.stdout).toContain(detail)
})

it('a proof is reported as a proof, with or without indentation', async () => {
  const proof = JSON.parse(readFileSync(home.path('proof.json'), 'utf8')) as unknown
  writeFileSync(home.path('indented.json'), `${JSON.stringify(proof, null, 2)}\n`)
  for (const file of ['proof.json', 'indented.json']) {
    const { code, stdout } = await verify(file, '--format', 'table')
    expect(code).toBe(0)
    expect(stdout).toMatch(/1 receipt · .+\n {2}signatures ✓ {2}proof ✓ /)
    expect(stdout).not.toContain('chain')
  }
})

/** Runs `craik …`, and kills it at the deadline. The exit code is then null. */
async function runBounded(args: readonly string[], where = home): Promise<CommandResult> {
  const { child, ended } = startInBackground(where, args)
  const deadline = setTimeout(() => child.kill('SIGKILL'), DEADLINE_MS)
  try {
    return await ended
  } finally {
    clearTimeout(deadline)
  }
}

function verify(file: string, ...flags: string[]): Promise<CommandResult> {
  return runBounded(['receipts', 'verify', file, '--public-key', 'craik.pub', ...flags])
}

function standalone(...args: string[]): Promise<CommandResult> {
  return run('timeout', ['-s', 'KILL', '30', NODE, VERIFIER, ...args], {
    cwd: home.folder,
    env: process.env as Record<string, string>,
  })
}

function copyOf(original: TestHome): TestHome {
  const copy = new TestHome()
  cpSync(original.home, copy.home, { recursive: true })
  for (const folder of ['', 'secrets', 'state', 'state/shell-output'])
    chmodSync(join(copy.home, folder), 0o700)
  return copy
}

/** Returns the paths of the side logs, the largest first, so that the first one is not empty. */
function logNames(victim: TestHome): string[] {
  const folder = join(victim.home, 'state/shell-output')
  return readdirSync(folder)
    .filter((name) => name.endsWith('.log'))
    .map((name) => join(folder, name))
    .sort((a, b) => readFileSync(b).length - readFileSync(a).length)
}
