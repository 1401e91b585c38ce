/** Craik mounts folders in a running container while another process replaces them. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HotMountFolders, SandboxInstance, SandboxSpec } from '../../src/sandboxes/backend.ts'
import { dockerBackend } from '../../src/sandboxes/backends/docker/backend.ts'
import { closeHotMounts, findHotMountFault } from '../../src/sandboxes/backends/docker/hot-mount-folder.ts'
import { INSIDE } from '../../src/sidecar/protocol.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { canBe, ROOT_IS_NEEDED, USER_UID } from '../sandbox-home.ts'
import { InstanceRunner, SOCKET_RUNNERS } from './instance-runner.fixture.ts'

const missing = canBe('root') ? ENGINE_IS_NEEDED : ROOT_IS_NEEDED
const OWNER = { uid: USER_UID, gid: USER_UID }

/**
 * Gives one name to two things in turn, as fast as it can. A turn fails when another process creates a folder at the
 * free name, as Craik does for protected files. The last step of the turn then puts the first thing over that folder.
 */
const EXCHANGE = `
const { renameSync } = require('node:fs')
const [one, other, aside] = process.argv.slice(1)
const turn = [[one, aside], [other, one], [one, other], [aside, one]]
process.stdout.write('begun')
for (;;) for (const [from, to] of turn) try { renameSync(from, to) } catch {}`

describe.skipIf(missing !== undefined)(missing ?? 'a container that runs', () => {
  let runner: InstanceRunner
  const backend = () => dockerBackend({ craikHome: runner.craikHome, environment: process.env })
  beforeAll(async () => {
    runner = await InstanceRunner.open(SOCKET_RUNNERS.find(({ uid }) => uid === 0)!)
  })
  afterAll(() => runner?.[Symbol.asyncDispose]())

  const start = async (hotMounts = { workspace: true, mounts: true }) => {
    const spec = runner.specWith({ late: hotMounts, hostUser: OWNER })
    mkdirSync(spec.folder, { mode: 0o700 })
    const instance = await backend().create(spec)
    const { late: _, ...own } = spec
    return { spec: own as SandboxSpec, place: instance }
  }
  const inside = ({ handle }: SandboxInstance, path: string) => `/proc/${handle.pid}/root${path}`
  const hostMounts = () =>
    readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      // Ignores the mounts of engines and sandboxes that other test files start in the meantime.
      .filter((line) => !/\/overlay2\/|\/craik-engine-|\/sbx_\w+\/|nsfs/.test(line))
      .map((line) => line.split(' ').slice(2).join(' '))

  it('gets exactly the granted folders, and the host has no mount of them', async () => {
    const { path, workspace } = runner.workspace('plain')
    const books = runner.workspace('books').path
    const before = hostMounts()
    const { spec, place: instance } = await start()
    try {
      expect(instance.limits.disk).toBe('not-enforced')
      expect(readdirSync(inside(instance, INSIDE.workspace))).toEqual([])
      await instance.mountFolders!({ ...spec, workspace, mounts: [{ folder: books, at: '/mnt/books' }] })
      expect(readdirSync(inside(instance, INSIDE.workspace)).sort()).toEqual(readdirSync(path).sort())
      expect(readdirSync(inside(instance, '/mnt'))).toEqual(['books'])
      expect(readFileSync(inside(instance, '/mnt/books/file.txt'), 'utf8')).toBe('ours\n')
      expect(hostMounts()).toEqual(before)
      expect(existsSync(join(spec.folder, 'late/shared/workspace/file.txt'))).toBe(false)
      await expect(instance.mountFolders!({ ...spec, workspace })).rejects.toMatchObject({
        code: 'unavailable',
      })
    } finally {
      await instance.destroy()
    }
    expect(await runner.findLeftovers(spec)).toEqual([])
    expect(readdirSync(path).sort()).toEqual(['.git', 'file.txt'])
  })

  it('is distinguished from a container that does not receive the mounts made for it', async () => {
    const { spec, place: instance } = await start({ workspace: true, mounts: false })
    const fault = (hotMounts: HotMountFolders) =>
      findHotMountFault(Number(instance.handle.pid), spec.folder, hotMounts)
    try {
      expect(fault({ workspace: true, mounts: false })).toBeUndefined()
      expect(fault({ workspace: true, mounts: true })).toMatch(/^\/mnt does not receive mounts/)
      await closeHotMounts(spec.folder)
      expect(fault({ workspace: true, mounts: false })).toMatch(/not mounted on this machine/)
    } finally {
      await instance.destroy()
    }
  })

  it('gets no folder that was replaced with a link', async () => {
    const { path, workspace } = runner.workspace('linked')
    renameSync(path, `${path}.real`)
    symlinkSync(`${path}.real`, path)
    const { spec, place: instance } = await start()
    try {
      await expect(instance.mountFolders!({ ...spec, workspace })).rejects.toMatchObject({ code: 'usage' })
      expect(readdirSync(inside(instance, INSIDE.workspace))).toEqual([])
    } finally {
      await instance.destroy()
    }
  })

  it.each(['', '/.claude', '/.git/hooks', '/.npmrc', '/.git'])(
    'never sees what another process puts in place of the workspace%s in the meantime',
    async (name) => {
      const { path, workspace } = runner.workspace(`raced${name.replaceAll('/', '-')}`)
      const before = hostMounts()
      const secret = join(runner.folder, `secret${name.replaceAll('/', '-')}`)
      mkdirSync(secret)
      mkdirSync(join(secret, 'secret'))
      const [one, other] = [`${path}${name}`, `${path}.other`]
      if (!existsSync(one)) mkdirSync(one)
      symlinkSync(secret, other)
      const { spec, place: instance } = await start()
      const exchanging = spawn(process.execPath, ['-e', EXCHANGE, one, other, `${path}.aside`], {
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      const ended = once(exchanging, 'close')
      try {
        await once(exchanging.stdout, 'data')
        await instance.mountFolders!({ ...spec, workspace }).catch(() => {})
        for (const seen of ['', name]) {
          const at = inside(instance, `${INSIDE.workspace}${seen}`)
          const found = lstatSync(at, { throwIfNoEntry: false })
          if (found?.isDirectory()) expect(readdirSync(at)).not.toContain('secret')
        }
        expect(hostMounts()).toEqual(before)
      } finally {
        exchanging.kill('SIGKILL')
        await ended
        await instance.destroy()
        for (const left of [other, `${path}.aside`]) rmSync(left, { recursive: true, force: true })
      }
      expect(await runner.findLeftovers(spec)).toEqual([])
      expect(readdirSync(secret)).toEqual(['secret'])
    },
  )
})
