import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { probeCgroups, SandboxCgroup } from './cgroups.ts'

let test: TestFolder
beforeEach(() => {
  test = new TestFolder()
})
afterEach(() => test[Symbol.dispose]())

const LIMITS = { memoryBytes: 1024, processes: 7, cpuMillis: 250 }
const readFileOf = (...names: readonly string[]) => readFileSync(test.path(...names), 'utf8')

describe('control groups', () => {
  it('of version 1 are separate for each usable controller', () => {
    mkdirSync(test.path('memory'))
    mkdirSync(test.path('pids'))
    const mounts = ['memory', 'pids', 'cpu']
      .map((name) => `30 24 0:26 / ${test.path(name)} rw - cgroup cgroup rw,${name}\n`)
      .join('')
    const found = probeCgroups(mounts)
    // In a plain file system, `mkdir` succeeds for every controller, so this checks only those with a folder.
    expect(found.version).toBe(1)
    expect(found.parents.memory).toBe(test.path('memory/craik'))
    expect(found.parents.pids).toBe(test.path('pids/craik'))
  })

  it('are missing where nothing is mounted', () => {
    expect(probeCgroups('22 1 0:21 / /proc rw - proc proc rw\n')).toEqual({ version: 'none', parents: {} })
  })

  it('of version 1 set the requested limits', () => {
    const parents = { memory: test.path('m'), pids: test.path('p'), cpu: test.path('c') }
    const group = new SandboxCgroup({ version: 1, parents }, 'sbx')
    group.create(LIMITS)
    expect(readFileOf('m/sbx/memory.limit_in_bytes')).toBe('1024')
    expect(readFileOf('p/sbx/pids.max')).toBe('7')
    expect(readFileOf('c/sbx/cpu.cfs_quota_us')).toBe('25000')
    expect(existsSync(test.path('m/sbx/memory.memsw.limit_in_bytes'))).toBe(false)
    expect(group.joinFiles).toHaveLength(3)
  })

  it('of version 2 set the limits in one folder, and report the usage', () => {
    const parents = { memory: test.path('u'), pids: test.path('u'), cpu: test.path('u') }
    const group = new SandboxCgroup({ version: 2, parents }, 'sbx')
    mkdirSync(test.path('u/sbx'), { recursive: true })
    writeFileSync(test.path('u/sbx/memory.swap.max'), 'max')
    group.create(LIMITS)
    expect(readFileOf('u/sbx/memory.max')).toBe('1024')
    expect(readFileOf('u/sbx/memory.swap.max')).toBe('0')
    expect(readFileOf('u/sbx/cpu.max')).toBe('25000 100000')
    expect(group.joinFiles).toEqual([join(test.path('u/sbx'), 'cgroup.procs')])
    writeFileSync(test.path('u/sbx/memory.current'), '512\n')
    writeFileSync(test.path('u/sbx/memory.events'), 'low 0\nmax 3\noom 1\noom_kill 2\noom_group_kill 0\n')
    writeFileSync(test.path('u/sbx/pids.current'), '3\n')
    writeFileSync(test.path('u/sbx/cpu.stat'), 'usage_usec 5000\nuser_usec 1\n')
    writeFileSync(test.path('u/sbx/cgroup.procs'), '12\n13\n')
    expect(group.observe()).toEqual({ memoryBytes: 512, processes: 3, cpuMs: 5, outOfMemoryKills: 2 })
    expect(group.members()).toEqual([12, 13])
  })

  it('of either version are frozen and thawed where that is possible', async () => {
    const first = new SandboxCgroup({ version: 1, parents: { freezer: test.path('f') } }, 'sbx')
    expect(first.canFreeze).toBe(false)
    mkdirSync(test.path('f/sbx'), { recursive: true })
    writeFileSync(test.path('f/sbx/freezer.state'), 'THAWED')
    expect(first.canFreeze).toBe(true)
    await first.freeze()
    expect(readFileOf('f/sbx/freezer.state')).toBe('FROZEN')
    await first.thaw()
    expect(readFileOf('f/sbx/freezer.state')).toBe('THAWED')

    const second = new SandboxCgroup({ version: 2, parents: { memory: test.path('u') } }, 'sbx')
    mkdirSync(test.path('u/sbx'), { recursive: true })
    writeFileSync(test.path('u/sbx/cgroup.freeze'), '0')
    writeFileSync(test.path('u/sbx/cgroup.events'), 'populated 1\nfrozen 1\n')
    await second.freeze()
    expect(readFileOf('u/sbx/cgroup.freeze')).toBe('1')

    const none = new SandboxCgroup({ version: 'none', parents: {} }, 'sbx')
    expect(none.canFreeze).toBe(false)
    await none.thaw()
  })

  it('report nothing that cannot be measured', () => {
    const group = new SandboxCgroup({ version: 'none', parents: {} }, 'sbx')
    group.create(LIMITS)
    expect([group.observe(), group.members(), group.joinFiles]).toEqual([{}, [], []])
  })
})
