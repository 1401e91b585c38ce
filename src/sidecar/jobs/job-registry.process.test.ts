import { rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import { SidecarError } from '../router.ts'
import { sh, until } from '../sidecar.fixture.ts'
import { JobRegistry, type RegistryOptions } from './job-registry.ts'
import { Leaks } from './leaks.ts'
import { PipePool } from './pipes.ts'
import { programStarter } from './start-program.ts'

let folder: string
const leaks = new Leaks()
let pipes: PipePool
let jobs: JobRegistry
beforeEach(() => {
  folder = tempFolder('craik-jobs-')
  pipes = new PipePool(leaks)
})
afterEach(async () => {
  await jobs.close()
  pipes.close()
  // The log of a job that has just ended may still be on its way to a file.
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

function newJobs(limits: NonNullable<RegistryOptions['limits']>): void {
  const place = { home: folder, workspace: folder, gatewayPort: 1, own: {} }
  jobs = new JobRegistry({
    start: programStarter(place, { pipes, leaks, pty: undefined }),
    spillFolder: folder,
    limits,
  })
}

/** Creates a file that is larger than a window. */
function large(): void {
  writeFileSync(join(folder, 'large'), '')
  truncateSync(join(folder, 'large'), 40_000_000)
}

describe('jobs', () => {
  it('are refused when the limit of running jobs is reached', async () => {
    newJobs({ runningJobs: 2 })
    await jobs.start('a', sh('sleep 100'))
    await jobs.start('b', sh('sleep 100'))
    await expect(jobs.start('c', sh('true'))).rejects.toMatchObject({ code: 'busy' })
    // A running job is still found by its id, and an ended job makes capacity free.
    expect((await jobs.start('a', sh('sleep 100'))).created).toBe(false)
    await jobs.remove('a')
    expect((await jobs.start('c', sh('true'))).created).toBe(true)
  })

  it('are forgotten after their end, oldest first, when there are too many', async () => {
    newJobs({ endedJobs: 2 })
    for (const id of ['a', 'b', 'c']) await (await jobs.start(id, sh('true'))).job.ended
    expect(jobs.list().map((job) => job.id)).toEqual(['b', 'c'])
    expect(() => jobs.get('a')).toThrow(SidecarError)
  })

  it('are forgotten some time after their end', async () => {
    newJobs({ endedJobKeepMs: 0 })
    for (const id of ['a', 'b']) await (await jobs.start(id, sh('true'))).job.ended
    expect(jobs.list()).toEqual([])
  })

  it('do not run again under their ids after they were forgotten', async () => {
    newJobs({ endedJobs: 1 })
    await (await jobs.start('a', sh('true'))).job.ended
    await jobs.start('b', sh('sleep 100'))
    await jobs.remove('b')
    await (await jobs.start('c', sh('true'))).job.ended
    for (const id of ['a', 'b'])
      await expect(jobs.start(id, sh('true'))).rejects.toMatchObject({ code: 'gone', status: 410 })
    // A job that was deleted before its first request does not run either.
    await expect(jobs.remove('d')).rejects.toMatchObject({ code: 'not_found' })
    await expect(jobs.start('d', sh('true'))).rejects.toMatchObject({ code: 'gone' })
    expect(jobs.list().map((job) => job.id)).toEqual(['c'])
  })

  it('may have run if their first request came before an id was dropped, and are refused', async () => {
    newJobs({ endedJobs: 0, forgottenIds: 2 })
    const begunMs = performance.now()
    for (const id of ['a', 'b', 'c']) await (await jobs.start(id, sh('true'))).job.ended
    const ageMs = () => Math.ceil(performance.now() - begunMs)
    await expect(jobs.start('a', sh('true'), ageMs())).rejects.toMatchObject({ code: 'gone' })
    await expect(jobs.start('other', sh('true'), ageMs())).rejects.toMatchObject({ code: 'gone' })
    // A job with its first request now cannot have run.
    expect((await jobs.start('new', sh('true'))).created).toBe(true)
  })

  it('leave their id free when the sandbox has no process left to start them', async () => {
    let full = true
    const place = { home: folder, workspace: folder, gatewayPort: 1, own: {} }
    const start = programStarter(place, { pipes, leaks, pty: undefined })
    jobs = new JobRegistry({
      spillFolder: folder,
      start: async (spec, events) => {
        if (full) throw new SidecarError('busy', 'no process left')
        return start(spec, events)
      },
    })
    await expect(jobs.start('a', sh('true'))).rejects.toMatchObject({ code: 'busy' })
    full = false
    expect((await jobs.start('a', sh('true'))).created).toBe(true)
  })

  it('share a disk limit after their end, and the oldest return a gap', async () => {
    newJobs({ endedSpillBytes: 5_000_000 })
    const run = async (id: string) => {
      const { job } = await jobs.start(id, sh('head -c 3000000 /dev/zero'))
      await job.ended
      return job
    }
    const [first, second, third] = [await run('a'), await run('b'), await run('c')]
    await until(() => first.log.spillBytes === 0 && second.log.spillBytes === 0)
    expect(third.log.spillBytes).toBeGreaterThan(2_000_000)
    expect(await first.log.read(0)).toEqual({ from: 0, to: first.log.first })
    expect(first.log.first).toBeGreaterThan(0)
    expect(first.log.position - first.log.first).toBeGreaterThan(100_000)
  })

  it('may write any amount to a reader that acknowledges, and a limited amount without one', async () => {
    newJobs({ defaultOutputBytes: 2_000_000 })
    // The job writes no faster than its output is read, as with a remote reader.
    const spec = sh('for i in $(seq 100); do head -c 200000 /dev/zero; read line; done', { stdin: true })
    const { job } = await jobs.start('a', spec)
    let read = 0
    for (let at = 0; !job.log.hasEnded || at < job.log.position; ) {
      const piece = await job.log.read(at)
      if (piece === undefined) await new Promise((resolve) => setImmediate(resolve))
      else if (!Buffer.isBuffer(piece)) throw new Error('a gap')
      else {
        at += piece.length
        job.log.acknowledge(at)
        while (read < Math.floor(at / 200_000)) {
          await job.input(read, Buffer.from('\n'))
          read++
        }
      }
    }
    expect(job.result).toMatchObject({ outcome: 'exited', stdoutBytes: 20_000_000 })
    const unread = await jobs.start('b', sh('head -c 20000000 /dev/zero'))
    await unread.job.ended
    expect(unread.job.result?.outcome).toBe('output_limit')
    // If the job has a limit of its own, all of its output counts.
    const limited = await jobs.start('c', sh('head -c 20000000 /dev/zero', { maxOutputBytes: 30_000_000 }))
    await limited.job.ended
    expect(limited.job.result?.outcome).toBe('exited')
  })

  it('have a limit of their own when they pack or unpack', async () => {
    newJobs({ archiveJobs: 2 })
    await jobs.start('a', { kind: 'tar-in', path: 'a' })
    await jobs.start('b', { kind: 'tar-in', path: 'b' })
    await expect(jobs.start('c', { kind: 'tar-out', path: '.' })).rejects.toMatchObject({ code: 'busy' })
    expect((await jobs.start('d', sh('true'))).created).toBe(true)
    await jobs.remove('a')
    expect((await jobs.start('c', { kind: 'tar-out', path: '.' })).created).toBe(true)
  })

  it('are cancelled after a while if they pack or unpack without a reader or sender, and other jobs are not', async () => {
    newJobs({ archiveIdleMs: 1000 })
    large()
    const abandoned = [
      await jobs.start('in', { kind: 'tar-in', path: 'in' }),
      await jobs.start('out', { kind: 'tar-out', path: 'large' }),
    ]
    const read = await jobs.start('read', { kind: 'tar-out', path: 'large' })
    const reader = { position: 0, sinceMs: Number.NEGATIVE_INFINITY, wake() {} }
    read.job.log.addReader(reader)
    const fed = await jobs.start('fed', { kind: 'tar-in', path: 'fed' })
    const feeder = { onTakeOver() {} }
    fed.job.inputLock.begin({ id: 'one', take: false }, feeder)
    const exec = await jobs.start('exec', sh('sleep 100'))
    await Promise.all(abandoned.map(({ job }) => job.ended))
    expect(abandoned.map(({ job }) => job.result?.outcome)).toEqual(['cancelled', 'cancelled'])
    for (const { job } of [read, fed, exec]) expect(job.result).toBeUndefined()
    read.job.log.removeReader(reader)
    fed.job.inputLock.end(feeder)
    fed.job.touch()
    await Promise.all([read.job.ended, fed.job.ended])
    expect(exec.job.result).toBeUndefined()
  })

  it('end when their packing process is killed, although no reader has taken the output', async () => {
    newJobs({})
    large()
    const { job } = await jobs.start('out', { kind: 'tar-out', path: 'large' })
    await until(() => !job.log.hasCapacity)
    process.kill(job.pid!, 'SIGKILL')
    await job.ended
    expect(job.result).toMatchObject({ outcome: 'signalled', signal: 'SIGKILL' })
  })

  it('report that they wait for the disk, and end when they are killed', async () => {
    newJobs({})
    writeFileSync(join(folder, 'file'), '')
    const place = { home: folder, workspace: folder, gatewayPort: 1, own: {} }
    const start = programStarter(place, { pipes, leaks, pty: undefined })
    await jobs.close()
    jobs = new JobRegistry({ start, spillFolder: join(folder, 'file', 'none') })
    const { job } = await jobs.start('a', { kind: 'exec', argv: ['cat', '/dev/zero'] })
    await until(() => job.status().waiting === 'disk')
    process.kill(job.pid!, 'SIGKILL')
    await job.ended
    expect(job.result?.outcome).toBe('signalled')
    expect(job.status()).not.toHaveProperty('waiting')
  })

  it('all end when the sidecar exits', async () => {
    newJobs({})
    const started = await Promise.all(['a', 'b', 'c'].map((id) => jobs.start(id, sh('sleep 100'))))
    await jobs.close()
    expect(started.map(({ job }) => job.result?.outcome)).toEqual(['cancelled', 'cancelled', 'cancelled'])
  })
})
