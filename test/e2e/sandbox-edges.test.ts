/** `craik sandbox` with unusual input: empty and huge values, readers that exit early, and missing grants. */
import { truncateSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import type { Receipt } from '../../src/receipts/schema.ts'
import { builtMain, NODE, run, TestHome } from '../craik.ts'

let home: TestHome

beforeAll(async () => {
  home = new TestHome()
  await home.json(['sandbox', 'create', '--name', 'edge'])
})
afterAll(async () => {
  await home.run(['sandbox', 'delete', '--all', '--yes'])
  await home.run(['supervisor', 'stop'])
  home[Symbol.dispose]()
})

describe('an unusual value', () => {
  const ODD = ['', '-1', 'x'.repeat(60_000)]
  /** `V` stands for the value. */
  const PLACES: readonly string[][] = [
    ['exec', 'edge', '--cwd=V', '--', 'true'],
    ['exec', 'edge', '--grant=V', '--', 'true'],
    ['exec', 'edge', '--job-id=V', '--', 'true'],
    ['exec', 'edge', '--timeout=V', '--', 'true'],
    ['exec', 'V', '--', 'true'],
    ['show', 'V'],
    ['stats', 'V'],
    ['ps', 'V'],
    ['signal', 'V', '1'],
    ['logs', 'V'],
    ['logs', 'edge', '--job=V'],
    ['forward', 'V', '80'],
    ['forward', 'edge', 'V'],
    ['delete', 'V'],
    ['cp', 'V', 'edge:there'],
    ['list', '--format=V'],
  ]

  it.each(PLACES.map((typed) => [typed.join(' '), typed] as const))(
    'is refused with an error about the command line, not about the API: craik sandbox %s',
    async (_, typed) => {
      for (const odd of ODD) {
        const args = typed.map((part) => part.replace('V', () => odd))
        const { code, stderr } = await home.run([
          'sandbox',
          ...args,
          ...(typed[0] === 'delete' ? ['--yes'] : []),
        ])
        const reported = [args.map((part) => part.slice(0, 40)), stderr.slice(0, 400)]
        expect([code === 0, code === ERRORS.internal.exit], JSON.stringify(reported)).toEqual([false, false])
        expect(stderr.length, JSON.stringify(reported)).toBeLessThan(600)
        expect(stderr).not.toMatch(
          /\b(body|params|query|querystring)\b|expected string|must match|craik-grant/,
        )
      }
    },
  )
})

describe('a pipe whose reader exits', () => {
  const pipe = (...program: readonly string[]) =>
    run(
      'bash',
      [
        '-c',
        'set -o pipefail; "$0" "$@" | head -1',
        NODE,
        builtMain(),
        'sandbox',
        'exec',
        'edge',
        '--',
        ...program,
      ],
      { env: { PATH: process.env.PATH!, CRAIK_HOME: home.home, HOME: home.folder } },
    )

  it('ends the command in the sandbox, with exit code 141 like any program', async () => {
    expect(await pipe('yes')).toEqual({ code: 141, stdout: 'y\n', stderr: '' })
    expect((await home.run(['sandbox', 'ps', 'edge'])).stdout).not.toContain('"yes"')
  })

  it('also ends a command that ignores SIGPIPE', async () => {
    const deaf = await pipe('sh', '-c', "trap '' PIPE; yes")
    expect(deaf).toEqual({ code: 141, stdout: 'y\n', stderr: '' })
    expect((await home.run(['sandbox', 'ps', 'edge'])).stdout).not.toContain('"yes"')
  })
})

describe('forward', () => {
  it('without a grant is denied at once, with the command to type and a receipt', async () => {
    const grants = await home.json<{ id: string; capability: string }[]>(['grant', 'list'])
    const { id } = grants.find(({ capability }) => capability === 'sandbox.forward')!
    await home.json(['grant', 'revoke', id])
    const { code, stdout, stderr } = await home.run(['sandbox', 'forward', 'edge', '3000'])
    expect([code, stdout]).toEqual([ERRORS.denied.exit, ''])
    expect(stderr).toContain('craik grant create --capability sandbox.forward')
    const [denial] = await home.json<Receipt[]>(['receipts', 'list', '--kind', 'denial', '--limit', '1'])
    expect(denial!.body).toMatchObject({ capability: 'sandbox.forward', metadata: { port: 3000 } })
    expect(stderr).toContain(denial!.body.id)
  })
})

describe('a copy that is too large', () => {
  it('names a sufficient --max-copy, which then works', async () => {
    const file = home.path('large.bin')
    writeFileSync(file, '')
    truncateSync(file, 3 * 1024 * 1024 + 1)
    const refused = await home.run(['sandbox', 'cp', file, 'edge:', '--max-copy', '1m'])
    expect(refused.code).toBe(ERRORS.too_large.exit)
    expect(refused.stderr).toContain('--max-copy 3.1m\n')
    await home.json(['sandbox', 'cp', file, 'edge:', '--max-copy', '3.1m'])
    const back = await home.run(['sandbox', 'cp', 'edge:large.bin', home.path('back'), '--max-copy', '1m'])
    expect(back.stderr).toContain('--max-copy 3.1m\n')
    const folder = await home.run(['sandbox', 'cp', 'edge:.', home.path('all'), '--max-copy', '1m'])
    expect(folder.code).toBe(ERRORS.too_large.exit)
    expect(folder.stderr).toContain('craik sandbox exec edge -- du -sh .\n')
  })
})

describe('an egress attempt', () => {
  it('is denied with a receipt that names the destination', async () => {
    const attempt =
      'exec 3<>/dev/tcp/127.0.0.1/8118; printf "CONNECT Collector.Example:443 HTTP/1.1\\r\\n\\r\\n" >&3; cat <&3'
    const { stdout } = await home.run(['sandbox', 'exec', 'edge', '--', 'bash', '-c', attempt])
    expect(stdout).toContain('egress to collector.example:443 is not allowed')
    const denials = await home.json<Receipt[]>(['receipts', 'list', '--kind', 'denial'])
    expect(denials.map(({ body }) => body)).toContainEqual(
      expect.objectContaining({
        capability: 'network.egress',
        target: 'collector.example:443',
        decision: expect.objectContaining({ rule: 'egress.no_rule' }),
        metadata: expect.objectContaining({ count: 1, destinations: ['collector.example:443'] }),
      }),
    )
    const proof = await home.run(['receipts', 'verify', '--format', 'json'])
    expect(proof.code).toBe(0)
  })
})
