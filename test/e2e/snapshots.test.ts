/** `craik sandbox snapshot`, `restore` and `fork`, and `craik snapshot`, as a user types them, with real sandboxes. */
import { execFileSync } from 'node:child_process'
import { createHash, createHmac } from 'node:crypto'
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import type { SandboxBody, SnapshotBody } from '../../src/operator/api/bodies.ts'
import { SupervisorKiller } from '../faults/supervisor-kill.ts'
import { receiptsOf, requireWholeLog } from '../faults/supervisor-kill-receipts.ts'
import { canBe, IDENTITIES, SandboxHome } from '../sandbox-home.ts'
import { selfSigned } from '../wire/certificate.ts'

const POLL_MS = 5
const SECRET_KEY = 'nobody-has-this-key-but-the-test'
const { key, cert } = selfSigned(['127.0.0.1'])

describe.each(IDENTITIES)('as %s', (identity) => {
  describe.runIf(canBe(identity))('the commands', () => {
    let home: SandboxHome
    let store: Server
    let received: { readonly request: IncomingMessage; readonly body: Buffer }[] = []
    let origin: string
    beforeAll(async () => {
      home = await SandboxHome.open({ identity })
      store = createServer({ key, cert }, (request, response) => {
        const parts: Buffer[] = []
        request.on('data', (chunk: Buffer) => parts.push(chunk))
        request.on('end', () => {
          received.push({ request, body: Buffer.concat(parts) })
          response.writeHead(request.url?.startsWith('/moved') ? 307 : 200, { location: '/elsewhere' }).end()
        })
      })
      await new Promise<void>((done) => store.listen(0, '127.0.0.1', done))
      origin = `https://127.0.0.1:${(store.address() as AddressInfo).port}`
      writeFileSync(home.path('authority.pem'), cert)
      chmodSync(home.path('authority.pem'), 0o644)
      // The first command starts the supervisor, with its own environment.
      await home.create(['--name', 'box'])
    })
    afterAll(async () => {
      await home[Symbol.asyncDispose]()
      await new Promise((done) => store.close(done))
    })

    const inside = async (name: string, script: string) => {
      const ran = await home.run(['sandbox', 'exec', name, '--no-stdin', '--', 'sh', '-c', script])
      expect(ran).toMatchObject({ code: 0 })
      return ran.stdout
    }

    it('snapshot and restore a running sandbox, whose jobs end as stopped', async () => {
      await inside('box', 'echo one > a; mkdir d; ln -s /etc/shadow d/l; ln a d/h; chmod 4711 a; chmod 500 d')
      const made = await home.json<SnapshotBody>(['sandbox', 'snapshot', 'box', '--name', 'before'])
      expect(made).toMatchObject({ name: 'before', content: { files: 1, links: 2 }, imported: false })
      // Only root has a freezer for the sandbox.
      if (identity === 'root') expect(made.content.still).toBe(true)
      expect(statSync(join(home.home, 'snapshots')).mode & 0o777).toBe(0o700)
      const { job_id } = await home.json<{ job_id: string }>([
        'sandbox',
        'exec',
        'box',
        '--detach',
        '--',
        'sleep',
        '1000',
      ])
      await inside('box', 'chmod 700 d; rm -r d; echo two > a; echo x > b')
      const back = await home.json<SandboxBody>(['sandbox', 'restore', 'box', 'before'])
      expect(back).toMatchObject({ name: 'box', state: 'running', running_jobs: 0 })
      expect(await inside('box', 'cat a; ls; readlink d/l; stat -c "%a %h %U" a d')).toBe(
        'one\na\nd\n/etc/shadow\n711 2 agent\n500 2 agent\n',
      )
      const end = (await receiptsOf(home)).find(
        ({ phase, links }) => phase === 'end' && links.job_id === job_id,
      )
      expect(end).toMatchObject({ status: 'failed', metadata: { outcome: 'stopped' } })
    })

    it('snapshot and restore a stopped sandbox without starting it', async () => {
      expect((await home.run(['sandbox', 'stop', 'box'])).code).toBe(0)
      const made = await home.json<SnapshotBody>(['sandbox', 'snapshot', 'box', '--name', 'stopped'])
      expect(made.content).toMatchObject({ files: 1, still: true, changed: 0 })
      const back = await home.json<SandboxBody>(['sandbox', 'restore', 'box', 'stopped'])
      expect(back.state).toBe('stopped')
      expect((await home.run(['sandbox', 'resume', 'box'])).code).toBe(0)
      expect(await inside('box', 'cat a')).toBe('one\n')
    })

    it('fork a sandbox with the same files, limits and policy, and neither sees later changes of the other', async () => {
      const fork = await home.json<SandboxBody>(['sandbox', 'fork', 'box', '--name', 'child'])
      const box = await home.json<SandboxBody>(['sandbox', 'show', 'box'])
      expect(fork).toMatchObject({ limits: box.limits, policy_envelope_id: box.policy_envelope_id })
      if (identity === 'root') expect(fork.host_uid).not.toBe(box.host_uid)
      await inside('child', 'cat a; echo child > a')
      expect(await inside('box', 'cat a')).toBe('one\n')
      expect(await inside('child', 'cat a')).toBe('child\n')
      expect((await home.json<SnapshotBody[]>(['snapshot', 'list'])).map(({ name }) => name)).not.toContain(
        'child',
      )
      expect((await home.run(['sandbox', 'delete', 'child'])).code).toBe(0)
    })

    it('export to a file, import it again and create a sandbox from it, without a changed bit', async () => {
      const file = home.path('before.tar')
      const { digest } = await home.json<{ digest: string }>(['snapshot', 'export', 'before', file])
      expect(statSync(file).mode & 0o777).toBe(0o600)
      const again = await home.run(['snapshot', 'export', 'before', file])
      expect(again).toMatchObject({ code: ERRORS.conflict.exit, stderr: expect.stringContaining('--force') })
      const imported = await home.json<SnapshotBody>([
        'snapshot',
        'import',
        file,
        '--name',
        'other',
        '--digest',
        digest,
      ])
      expect(imported).toMatchObject({ digest, imported: true })
      expect((await home.run(['snapshot', 'export', 'other', home.path('other.tar')])).code).toBe(0)
      expect(readFileSync(home.path('other.tar')).equals(readFileSync(file))).toBe(true)
      await home.create(['--name', 'made', '--from', 'other'])
      expect(await inside('made', 'cat a d/h')).toBe('one\none\n')
      expect((await home.run(['sandbox', 'delete', 'made'])).code).toBe(0)
    })

    it('require an explicit --isolation to create a sandbox from a snapshot without isolation', async () => {
      await home.create(['--name', 'bare', '--isolation', 'none', '--env', 'COLOUR=blue'])
      const made = await home.json<SnapshotBody>(['sandbox', 'snapshot', 'bare', '--name', 'bare-before'])
      expect(made).toMatchObject({ isolation: 'none', variables: ['COLOUR'] })
      const from = ['sandbox', 'create', '--from', 'bare-before', '--name', 'bare-again']
      expect(await home.run(from)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('isolation none'),
      })
      const again = await home.json<SandboxBody>([...from, '--isolation', 'process'])
      expect(again).toMatchObject({ isolation: 'process' })
      const sent = await home.run(['snapshot', 'export', 'bare-before', home.path('bare.tar')])
      expect(sent).toMatchObject({ code: 0, stderr: expect.stringContaining('COLOUR') })
      for (const name of ['bare', 'bare-again']) await home.run(['sandbox', 'delete', '--yes', name])
    })

    it('report what they skip, and replace only regular files', async () => {
      await inside('box', 'mkfifo pipe')
      const made = await home.run(['sandbox', 'snapshot', 'box', '--name', 'piped', '--format', 'table'])
      expect(made).toMatchObject({ code: 0, stdout: expect.stringContaining('skipped  1 entry: fifo (1)\n') })
      await inside('box', 'rm pipe')
      execFileSync('mkfifo', [home.path('a-pipe')])
      const onto = await home.run(['snapshot', 'export', 'piped', home.path('a-pipe'), '--force'])
      expect(onto).toMatchObject({
        code: ERRORS.conflict.exit,
        stderr: expect.stringContaining('not a regular file'),
      })
      expect(statSync(home.path('a-pipe')).isFIFO()).toBe(true)
      const nowhere = await home.run(['snapshot', 'export', 'piped', ''])
      expect(nowhere).toMatchObject({ code: ERRORS.usage.exit, stderr: expect.stringContaining('empty') })
    })

    it('refuse an import that was changed on the way, and keep nothing of it', async () => {
      const bytes = readFileSync(home.path('before.tar'))
      bytes[bytes.length - 1500]! ^= 1
      writeFileSync(home.path('changed.tar'), bytes)
      chmodSync(home.path('changed.tar'), 0o644)
      const before = await home.json<SnapshotBody[]>(['snapshot', 'list'])
      const refused = await home.run(['snapshot', 'import', home.path('changed.tar'), '--name', 'changed'])
      expect(refused).toMatchObject({ code: ERRORS.usage.exit, stdout: '' })
      expect(await home.json<SnapshotBody[]>(['snapshot', 'list'])).toEqual(before)
      expect(readdirSync(join(home.home, 'snapshots'))).toHaveLength(before.length)
    })

    it('export to a store over TLS, with a signature that the store can check, and to no other address', async () => {
      await home.run(['supervisor', 'stop'])
      const env = { NODE_EXTRA_CA_CERTS: home.path('authority.pem') }
      for (const [name, value] of [
        ['S3_ID', 'the-id'],
        ['S3_KEY', SECRET_KEY],
      ] as const)
        expect((await home.run(['secret', 'set', name], { input: value, env })).code).toBe(0)
      const keys = ['--access-key-ref', 'S3_ID', '--secret-key-ref', 'S3_KEY']
      const toStore = ['snapshot', 'export', 'before', 's3://backups/a.tar', '--endpoint', origin, ...keys]
      const refused = await home.run(toStore, { env })
      expect(refused).toMatchObject({ code: ERRORS.export_failed.exit })
      expect(refused.stderr).toContain('--allow-private-address')
      expect(received).toEqual([])
      const sent = await home.json<{ to: string; bytes: number }>([...toStore, '--allow-private-address'], {
        env,
      })
      const exported = readFileSync(home.path('before.tar'))
      expect(sent).toMatchObject({ to: '127.0.0.1', bytes: exported.length })
      expect(received[0]!.body.equals(exported)).toBe(true)
      expect(received[0]!.request.headers.authorization).toBe(authorizationOf(received[0]!.request))
      received = []
      const plain = ['snapshot', 'export', 'before', `${origin}/kept?sig=hidden`, '--allow-private-address']
      expect((await home.run(plain, { env })).code).toBe(0)
      expect(received).toMatchObject([{ request: { method: 'PUT', url: '/kept?sig=hidden' } }])
      const moved = await home.run(
        ['snapshot', 'export', 'before', `${origin}/moved`, '--allow-private-address'],
        {
          env,
        },
      )
      expect(moved).toMatchObject({ code: ERRORS.export_failed.exit })
      expect(received).toHaveLength(2)
      const receipts = JSON.stringify(await receiptsOf(home))
      expect(receipts).toContain('"host":"127.0.0.1"')
      for (const hidden of ['sig=hidden', SECRET_KEY, 'the-id']) expect(receipts).not.toContain(hidden)
    })

    it('leave nothing of a snapshot that was killed, and the sandbox continues', async () => {
      const killer = new SupervisorKiller(home.home)
      await home.json(['sandbox', 'list'])
      await inside('box', 'head -c 150000000 /dev/urandom > large')
      const snapshots = join(home.home, 'snapshots')
      const partial = () =>
        readdirSync(snapshots).find(
          (name) => name.startsWith('.partial-') && existsSync(join(snapshots, name, 'disk.tar.zst')),
        )
      const pending = home.run(['sandbox', 'snapshot', 'box', '--name', 'half'])
      while (partial() === undefined) await sleep(POLL_MS)
      await killer.kill()
      expect((await pending).code).not.toBe(0)
      expect(await inside('box', 'echo on')).toBe('on\n')
      expect(partial()).toBeUndefined()
      const listed = await home.json<SnapshotBody[]>(['snapshot', 'list'])
      expect(listed.map(({ name }) => name)).not.toContain('half')
      expect(readdirSync(snapshots)).toHaveLength(listed.length)
      const bodies = await requireWholeLog(home)
      expect(
        bodies.findLast(({ phase, operation }) => phase === 'end' && operation === 'snapshot'),
      ).toMatchObject({
        status: 'indeterminate',
      })
      for (const { id } of listed) expect((await home.run(['snapshot', 'delete', id])).code).toBe(0)
      expect(readdirSync(snapshots)).toEqual([])
    })
  })
})

/** Computes the signature as the store does, from the request that it received. */
function authorizationOf({ method, url, headers }: IncomingMessage): string {
  const signed = /SignedHeaders=([^,]+),/.exec(headers.authorization ?? '')?.[1] ?? ''
  const lines = signed.split(';').map((name) => `${name}:${String(headers[name])}\n`)
  const canonical = `${method}\n${url}\n\n${lines.join('')}\n${signed}\n${String(headers['x-amz-content-sha256'])}`
  const date = String(headers['x-amz-date'])
  const scope = `${date.slice(0, 8)}/us-east-1/s3/aws4_request`
  const text = `AWS4-HMAC-SHA256\n${date}\n${scope}\n${createHash('sha256').update(canonical).digest('hex')}`
  const mac = (by: Buffer | string, of: string) => createHmac('sha256', by).update(of).digest()
  const parts = ['us-east-1', 's3', 'aws4_request']
  const signing = parts.reduce<Buffer>(
    (by, part) => mac(by, part),
    mac(`AWS4${SECRET_KEY}`, date.slice(0, 8)),
  )
  const signature = createHmac('sha256', signing).update(text).digest('hex')
  return `AWS4-HMAC-SHA256 Credential=the-id/${scope},SignedHeaders=${signed},Signature=${signature}`
}
