import { chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseCreate } from './create-request.ts'
import { SANDBOX_REQUEST } from './manager.fixture.ts'

describe('a request for a sandbox', () => {
  let folder: string
  const uid = process.geteuid!()
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'craik-create-'))
    for (const name of ['project', 'with:colon', 'home', 'home/inner', 'parent', 'parent/.craik'])
      mkdirSync(join(folder, name))
    symlinkSync(join(folder, 'project'), join(folder, 'link'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const parse = (changes: object, craikHome = join(folder, 'home'), as = uid) =>
    parseCreate({ ...SANDBOX_REQUEST, ...changes }, { craikHome, environment: {}, uid: as })
  const inPlace = (name: string) => ({ workspace: { mode: 'in-place', folder: join(folder, name) } })

  it('gets defaults for missing fields', () => {
    expect(parse({}).limits).toEqual({ memoryBytes: 2 ** 31, processes: 512, diskBytes: 2 ** 32 })
    expect(parse({ limits: { processes: 64 } }).limits).toMatchObject({ processes: 64, memoryBytes: 2 ** 31 })
  })

  it.each([
    { name: '-flag' },
    { name: 'a b' },
    { name: 'a/b' },
    { name: '../up' },
    { name: 'x'.repeat(65) },
    { name: 'sbx_01M7FX2NQ19H962NVZ1RVAP9A7' },
    { name: '' },
    { backend: 'docker' },
    { isolation: 'total' },
    { limits: { memoryBytes: 1 } },
    { limits: { memoryBytes: 2 ** 60 } },
    { limits: { processes: 1.5 } },
    { limits: { cpuMillis: Number.NaN } },
    { limits: { wishes: 3 } },
    { environment: { 'A B': 'x' } },
    { environment: { A: 'x\0y' } },
    { environment: { A: 'x'.repeat(40_000) } },
    { environment: Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`A${i}`, 'x'])) },
    { environment: { LD_PRELOAD: '/tmp/x.so' } },
    { environment: { NODE_OPTIONS: '--require=x' } },
    { environment: { CRAIK_SOCKET: '/tmp/other' } },
    { environment: { DEPLOY: 'ghp_abcdefghijklmnopqrstuvwxyz0123456789' } },
    { workspace: { mode: 'in-place', folder: 'relative' } },
    { workspace: { mode: 'in-place', folder: '/' } },
    { workspace: { mode: 'in-place', folder: '/etc' } },
    { workspace: { mode: 'in-place', folder: '/proc/self' } },
    { workspace: { mode: 'in-place', folder: '/no/such/folder' } },
    { mounts: [{ folder: '/srv/x', at: '/mnt/x', mode: 'read_only' }] },
    { volumes: [{ name: 'tools', at: '.local' }] },
    { isolation: 'process', volumes: [{ name: 'tools', at: '../up' }] },
    { isolation: 'process', volumes: [{ name: 'Tools', at: '.local' }] },
    { isolation: 'process', volumes: [{ name: 'tools', at: '.local', mode: 'read_only' }] },
    { network: 'none' },
    { network: 'host' },
    { more: true },
  ])('is refused for %j', (changes) => {
    expect(() => parse(changes)).toThrow(expect.objectContaining({ code: 'usage' }))
  })

  it.each([
    [{ environment: { A: 'x'.repeat(40_000) } }, 'environment.A: has more than 32,768 characters'],
    [{ limits: { memoryBytes: 1 } }, 'limits.memoryBytes: is less than 134217728'],
    [{ workspace: { mode: 'in-place', folder: '' } }, 'workspace.folder: must be an absolute path'],
  ])('is refused with Craik’s own messages', (changes, message) => {
    expect(() => parse(changes)).toThrow(expect.objectContaining({ message: `the sandbox: ${message}` }))
  })

  it.each(['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN'])('is refused with %s, even an empty one', (name) => {
    for (const value of ['', 'ghp_abcdefghijklmnopqrstuvwxyz0123456789'])
      expect(() => parse({ environment: { [name]: value } })).toThrow(
        expect.objectContaining({
          code: 'refused_variable',
          message: `the environment of the sandbox sets ${name}, which sandboxes must not see`,
        }),
      )
  })

  it('does not repeat a value that looks like a secret', () => {
    const secret = 'ghp_abcdefghijklmnopqrstuvwxyz0123456789'
    try {
      parse({ environment: { DEPLOY: secret } })
    } catch (error) {
      expect(String(error)).not.toContain(secret)
    }
  })

  it('mounts no folder that is behind a link, in Craik’s home or around it', () => {
    expect(() => parse(inPlace('link'))).toThrow('behind a symbolic link')
    expect(() => parse(inPlace('home/inner'))).toThrow('Craik’s own home')
    expect(() => parse(inPlace('home'))).toThrow('Craik’s own home')
    expect(() => parse(inPlace('parent'), join(folder, 'parent', '.craik'))).toThrow('Craik’s own home')
  })

  it.each([
    ['NODE_EXTRA_CA_CERTS', 'with:colon/authority.pem'],
    ['DOCKER_HOST', 'with:colon/docker.sock'],
    ['SSL_CERT_DIR', 'project/certificates'],
  ])('mounts no folder that contains the path in %s: %s', (name, path) => {
    const value = join(folder, path)
    const environment = {
      [name]:
        name === 'DOCKER_HOST' ? `unix://${value}` : name === 'SSL_CERT_DIR' ? `/etc/ssl:${value}` : value,
    }
    const request = { ...SANDBOX_REQUEST, ...inPlace(path.split('/')[0]!) }
    expect(() => parseCreate(request, { craikHome: join(folder, 'home'), environment, uid })).toThrow(
      `the workspace contains the path in ${name}`,
    )
  })

  const container = { backend: 'docker', isolation: 'container', container: { image: 'craik' } }
  const mount = (name: string, more: object = {}) => ({
    ...container,
    mounts: [{ folder: join(folder, name), at: '/mnt/library', mode: 'read_only', ...more }],
  })

  it('applies the rules of the workspace to other mounts of a container', () => {
    expect(parse(mount('project')).mounts).toEqual([{ folder: join(folder, 'project'), at: '/mnt/library' }])
    const climbing = { folder: `${folder}/parent/../project` }
    expect(() => parse(mount('project', climbing))).toThrow('may not be the folder that you chose')
    expect(() => parse(mount('link'))).toThrow('the folder for /mnt/library is behind a symbolic link')
    expect(() => parse(mount('home/inner'))).toThrow('Craik’s own home')
    expect(() => parse(mount('parent'), join(folder, 'parent', '.craik'))).toThrow('Craik’s own home')
    for (const system of ['/', '/etc', '/usr', '/home', '/proc/self', '/run', '/no/such/folder'])
      expect(() => parse(mount('project', { folder: system }))).toThrow(
        expect.objectContaining({ code: 'usage' }),
      )
  })

  it.each([
    { at: '/mnt' },
    { at: '/mnt/' },
    { at: '/mnt/..' },
    { at: '/mnt/a/b' },
    { at: '/mnt/../etc' },
    { at: '/etc/x' },
    { at: 'mnt/x' },
    { at: `/mnt/${'x'.repeat(65)}` },
    { mode: 'write' },
    { folder: 'project' },
  ])('refuses a mount with %j', (change) => {
    expect(() => parse(mount('project', change))).toThrow(expect.objectContaining({ code: 'usage' }))
  })

  it('mounts each path once, and at most eight folders', () => {
    const { mounts } = mount('project')
    const createMounts = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ ...mounts[0], at: `/mnt/m${index}` }))
    expect(() => parse({ ...container, mounts: [...mounts, ...mounts] })).toThrow('has the same path twice')
    expect(parse({ ...container, mounts: createMounts(8) }).mounts).toHaveLength(8)
    expect(() => parse({ ...container, mounts: createMounts(9) })).toThrow('more than 8')
  })

  it('lists the explicit fields, so that a missing one can be denied', () => {
    expect(parse({ ...container, environment: undefined, workspace: undefined })).toMatchObject({
      stated: { network: null, mounts: null, image: true, environment: false, workspace: false },
      environment: {},
      workspace: { mode: 'copy' },
      container: { image: undefined },
    })
    const writable = { ...mount('project', { mode: 'read_write' }), network: 'bridge' }
    expect(parse(writable)).toMatchObject({
      stated: { network: 'bridge', mounts: { all: 1, writable: 1 } },
      mounts: [],
    })
    expect(parse({ ...container, container: { image: 'craik:1' } }).container?.image).toBe('craik:1')
  })

  it('never runs as root', () => {
    expect(parse({ isolation: 'process' }, undefined, 0).hostUser).toBe('allocate')
    expect(parse({ isolation: 'process' }, undefined, 1234).hostUser).toBeUndefined()
    expect(parse({ isolation: 'none' }, undefined, 0).hostUser).toBeUndefined()
  })

  it('runs in place as the owner of the folder, and refuses a folder of root or of another user', () => {
    const request = { ...inPlace('project'), isolation: 'process' }
    if (uid === 0) chownSync(join(folder, 'project'), 1234, 1235)
    const owner = uid === 0 ? { uid: 1234, gid: 1235 } : { uid, gid: process.getegid!() }
    expect(parse(request, undefined, 0).hostUser).toEqual(owner)
    expect(parse(request, undefined, owner.uid).hostUser).toBeUndefined()
    expect(() => parse(request, undefined, 4321)).toThrow('belongs to another user')
    const ofRoot = { isolation: 'process', workspace: { mode: 'in-place', folder: '/usr/share/doc' } }
    expect(() => parse(ofRoot, undefined, 0)).toThrow('belongs to root')
  })
})
