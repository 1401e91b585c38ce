import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../test/temp-folder.ts'
import { currentOwner, hasOtherFileOpen, type Owner, ownerOf, ownerState } from './owner.ts'

const module = join(import.meta.dirname, 'owner.ts')
const printAndWait = `
  process.title = process.env.TITLE ?? 'owner'
  const { currentOwner } = await import(${JSON.stringify(module)})
  console.log(JSON.stringify(currentOwner()))
  setInterval(() => {}, 1e6)`
const node = [process.execPath, '--input-type=module', '-e', printAndWait] as const

const started: ChildProcess[] = []
afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
})

/** Starts a command that prints its own owner record as its first line of output. */
async function startOwner(
  program: string,
  args: readonly string[],
  env = process.env,
): Promise<[ChildProcess, Owner]> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], env })
  started.push(child)
  const [line] = await once(child.stdout!.setEncoding('utf8'), 'data')
  return [child, JSON.parse(line)]
}

describe('ownerState', () => {
  it('reports this process as alive, with the same owner each time', () => {
    expect(currentOwner()).toEqual(currentOwner())
    expect(currentOwner().pid).toBe(process.pid)
    expect(ownerState(currentOwner())).toBe('alive')
  })

  it('reports a child as alive until it is killed, and as dead from then on', async () => {
    const [child, owner] = await startOwner(node[0], node.slice(1))
    expect(owner.pid).toBe(child.pid)
    expect(ownerState(owner)).toBe('alive')
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(ownerState(owner)).toBe('dead')
  })

  it('reports an owner as dead when its pid belongs to a process that started at another time', () => {
    expect(ownerState({ ...currentOwner(), startedAt: '1' })).toBe('dead')
  })

  it('reports an owner as dead after a restart of the host, even if pid and start time recur', () => {
    const bootId = '00000000-0000-4000-8000-000000000000'
    expect(ownerState({ ...currentOwner(), bootId })).toBe('dead')
    expect(ownerState({ ...currentOwner(), bootId, pidNamespace: 'pid:[1]' })).toBe('dead')
  })

  it('decides by pid and start time when a boot id is not known', () => {
    expect(ownerState({ ...currentOwner(), bootId: '' })).toBe('alive')
    expect(ownerState({ ...currentOwner(), bootId: '', startedAt: '1' })).toBe('dead')
  })

  it('reports an owner in another pid namespace as unknown', () => {
    expect(ownerState({ ...currentOwner(), pidNamespace: 'pid:[1]' })).toBe('unknown')
    expect(ownerState({ ...currentOwner(), pidNamespace: 'pid:[1]', startedAt: '1' })).toBe('unknown')
  })

  it.each([0, -1, 1.5, Number.NaN])('reports %d, which is not a pid, as unknown', (pid) => {
    expect(ownerState({ ...currentOwner(), pid })).toBe('unknown')
  })

  it('reports a zombie as dead', async (context) => {
    if (process.platform !== 'linux') return context.skip('reads /proc to know that the zombie is there')
    // `exec` replaces the shell with a program that does not wait for the shell's child, so nothing collects its exit
    // status.
    const [, owner] = await startOwner('sh', ['-c', '"$@" & exec sleep 1000', 'sh', ...node])
    expect(ownerState(owner)).toBe('alive')
    process.kill(owner.pid, 'SIGKILL')
    const status = () => readFileSync(`/proc/${owner.pid}/status`, 'utf8')
    await expect.poll(status).toMatch(/^State:\tZ[\s\S]*^Threads:\t1$/m)
    expect(ownerState(owner)).toBe('dead')
  })

  it('reports a process as alive when its first thread has ended and another one still runs', async (context) => {
    if (process.platform !== 'linux') return context.skip('there is no /proc here')
    if (spawnSync('python3', ['--version']).status !== 0)
      return context.skip('there is no python3, whose first thread can end alone')
    const script = [
      'import ctypes, sys, threading, time',
      'threading.Thread(target=lambda: time.sleep(1000)).start()',
      'print(1, flush=True)',
      'ctypes.CDLL(None).pthread_exit(None)',
    ]
    const [child] = await startOwner('python3', ['-c', script.join('\n')])
    const state = () => readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ').at(-1)![0]
    await expect.poll(state).toBe('Z')
    const owner = ownerOf(child.pid!)
    expect(owner).toBeDefined()
    expect(ownerState(owner!)).toBe('alive')
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(ownerState(owner!)).toBe('dead')
  })

  it('is not misled by a program whose name looks like a part of /proc/pid/stat', async (context) => {
    if (process.platform !== 'linux') return context.skip('there is no /proc here')
    const [child, owner] = await startOwner(node[0], node.slice(1), { TITLE: 'a) Z 1 (b' })
    expect(readFileSync(`/proc/${owner.pid}/stat`, 'utf8')).toContain('(a) Z 1 (b)')
    expect(ownerState(owner)).toBe('alive')
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(ownerState(owner)).toBe('dead')
  })

  it('reports a living process in a real other pid namespace as unknown', async (context) => {
    const unshare = ['--user', '--map-root-user', '--pid', '--fork', '--mount-proc', '--kill-child']
    if (spawnSync('unshare', [...unshare, 'true']).status !== 0) {
      return context.skip('this machine does not let tests make pid namespaces')
    }
    const [, owner] = await startOwner('unshare', [...unshare, ...node])
    expect(owner.bootId).toBe(currentOwner().bootId)
    expect(owner.pid).toBe(1)
    expect(ownerState(owner)).toBe('unknown')
  })
})

describe('usesAnother', () => {
  it('distinguishes a process that has the file of another folder open from one that has this one open', async () => {
    const folder = tempFolder('craik-owner-')
    const [mine, copy] = ['mine', 'copy'].map((name) => join(folder, name, 'database'))
    for (const file of [mine!, copy!]) {
      mkdirSync(dirname(file))
      writeFileSync(file, '')
    }
    const open = `(await import('node:fs')).openSync(${JSON.stringify(mine)}, 'r')\n${printAndWait}`
    const [, owner] = await startOwner(process.execPath, ['--input-type=module', '-e', open])
    expect(hasOtherFileOpen(owner, copy!)).toBe(true)
    expect(hasOtherFileOpen(owner, mine!)).toBe(false)
    const moved = join(folder, 'moved')
    renameSync(dirname(mine!), moved)
    expect(hasOtherFileOpen(owner, join(moved, 'database'))).toBe(false)
    const [, withoutAny] = await startOwner(node[0], node.slice(1))
    expect(hasOtherFileOpen(withoutAny, copy!)).toBe(false)
    expect(hasOtherFileOpen({ ...owner, startedAt: '1' }, copy!)).toBe(false)
  })
})
