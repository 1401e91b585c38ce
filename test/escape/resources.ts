/** Exhausting resources: processes, memory and disk end at the sandbox's limits, and the sandbox reports it. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { expectToWork, type Scenario, tryIn } from './scene.ts'

const MIB = 1024 * 1024
const MAX_PIDS = 64

/** Starts a limited number of processes. Where the attack succeeds, it runs for a few seconds and ends all of them. */
const FORK = `
  children = []
  try:
      for _ in range(int(args[0])):
          pid = os.fork()
          if pid == 0:
              signal.pause()
          children.append(pid)
  finally:
      for pid in children:
          os.kill(pid, signal.SIGKILL)
          os.waitpid(pid, 0)`
/** Writes to every page, so that the memory is used and not only reserved. */
const USE_MEMORY = `
  import mmap
  memory = mmap.mmap(-1, int(args[0]) * ${MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
  for at in range(0, len(memory), 4096): memory[at] = 1`
/** Starts processes that together use more memory than the sandbox may use, although each one uses little. */
const USE_MEMORY_TOGETHER = `
  children, (reader, writer) = [], os.pipe()
  os.set_blocking(reader, False)
  for _ in range(int(args[0])):
      pid = os.fork()
      if pid == 0:
          block = bytearray(b'1') * (int(args[1]) * ${MIB})
          os.write(writer, b'1')
          signal.pause()
      children.append(pid)
  ended, full, until = 0, 0, time.time() + 60
  while ended == 0 and full < len(children) and time.time() < until:
      time.sleep(0.05)
      ended = sum(1 for pid in children if os.waitpid(pid, os.WNOHANG)[0] != 0)
      try: full += len(os.read(reader, 64))
      except BlockingIOError: pass
  for pid in children:
      try: os.kill(pid, signal.SIGKILL)
      except OSError: pass
  if ended: raise OSError(errno.ENOMEM, '%d were ended' % ended)
  if full < len(children): raise Exception('only %d have used theirs' % full)`
const FILL = `
  block = b'x' * ${MIB}
  try:
      with open(args[0], 'wb') as file:
          for _ in range(int(args[1])): file.write(block)
          os.fsync(file.fileno())
  finally: os.unlink(args[0])`

export const resources: Scenario = (scene) => {
  it('a fork bomb ends at the process limit, and the sandbox continues to work', async () => {
    const { home } = scene()
    const box = await home.create(['--pids', String(MAX_PIDS)])
    const wanted = [String(MAX_PIDS * 4)]
    await expectToWork([], FORK, wanted)
    expect(await tryIn(box, FORK, wanted)).toBe('failed EAGAIN')
    expect(await box.exec(['echo', 'still here'])).toMatchObject({ code: 0, stdout: 'still here\n' })
    await box.delete()
  })

  it('a fork bomb that keeps running affects neither the host nor the deletion of its sandbox', async () => {
    const { home, box: other } = scene()
    const box = await home.create(['--pids', String(MAX_PIDS)])
    const bomb = box.exec(['sh', '-c', 'b() { b & b & wait; }; b']).catch((error: unknown) => error)
    expect(await other.exec(['echo', 'not hit'])).toMatchObject({ code: 0, stdout: 'not hit\n' })
    const { observed } = await home.client().sandboxes.stats(box.id)
    expect(observed.processes ?? 0).toBeLessThanOrEqual(MAX_PIDS + 2)
    await box.delete()
    await bomb
  })

  it('a memory bomb ends at the memory limit, and the sandbox reports it', async () => {
    const { home } = scene()
    const box = await home.create(['--memory', '256m'])
    await expectToWork([], USE_MEMORY, ['1536'])
    const how = await tryIn(box, USE_MEMORY, ['1536'])
    expect(await box.exec(['echo', 'still here'])).toMatchObject({ code: 0, stdout: 'still here\n' })
    const { observed, enforced } = await home.client().sandboxes.stats(box.id)
    if (enforced.memory === 'cgroup') {
      expect(how).toBe('killed SIGKILL')
      expect(observed.out_of_memory_kills).toBeGreaterThan(0)
      await expectToWork([], USE_MEMORY_TOGETHER, ['8', '64'])
      expect(await tryIn(box, USE_MEMORY_TOGETHER, ['8', '64'])).toMatch(/^(failed ENOMEM|killed SIGKILL)$/)
      expect(await box.exec(['echo', 'still here'])).toMatchObject({ code: 0 })
    } else {
      expect(enforced.memory).toBe('per-process')
      expect(how).toBe('failed ENOMEM')
    }
    await box.delete()
  })

  it('a full disk is the sandbox’s own, or the sandbox reports that its disk is not limited', async () => {
    const { home, outside } = scene()
    const box = await home.create(['--disk', '64m'])
    await expectToWork('everything', FILL, [join(outside, 'filled'), '128'])
    rmSync(join(outside, 'filled'), { force: true })
    const how = await tryIn(box, FILL, ['filled', '128'])
    if (box.body.enforced?.disk === 'filesystem') {
      expect(how).toBe('failed ENOSPC')
      // With a full disk, the sandbox still runs commands and still returns output.
      await box.exec(['sh', '-c', 'cat /dev/zero > full'])
      expect(await box.exec(['seq', '100000'])).toMatchObject({ code: 0 })
      expect((await box.exec(['rm', 'full'])).code).toBe(0)
    } else expect(box.body.enforced?.disk).toBe('not-enforced')
    await box.delete()
  })

  it('file systems in memory have a limit too', async () => {
    const { home, box } = scene()
    await expectToWork([], FILL, ['/tmp/filled', '300'])
    // With the relay transport, the socket is on one more such file system.
    for (const folder of ['/dev/shm', '/run', ...(home.line === 'relay' ? ['/run/craik'] : [])])
      expect(await tryIn(box, FILL, [`${folder}/filled`, '300']), folder).toBe('failed ENOSPC')
  })
}
