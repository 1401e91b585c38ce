/** Eating what there is: processes, memory and disk end at the sandbox's limits, and it says so. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { expectToWork, type Scenario, tryIn } from './scene.ts'

const MIB = 1024 * 1024
const MAX_PIDS = 64

/** So many at a time, and no more: where it works it works a few seconds, and all of them are ended. */
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
/** Touches every page, so that it is used and not only promised. */
const USE_MEMORY = `
  import mmap
  memory = mmap.mmap(-1, int(args[0]) * ${MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
  for at in range(0, len(memory), 4096): memory[at] = 1`
/** So much in each of many, that together they use more than any of them may. */
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
  it('a fork bomb ends at the limit of processes, and the sandbox goes on', async () => {
    const { home } = scene()
    const box = await home.create(['--pids', String(MAX_PIDS)])
    const wanted = [String(MAX_PIDS * 4)]
    await expectToWork([], FORK, wanted)
    expect(await tryIn(box, FORK, wanted)).toBe('failed EAGAIN')
    expect(await box.exec(['echo', 'still here'])).toMatchObject({ code: 0, stdout: 'still here\n' })
    await box.delete()
  })

  it('a fork bomb that is left running takes neither the host nor the way to delete it', async () => {
    const { home, box: other } = scene()
    const box = await home.create(['--pids', String(MAX_PIDS)])
    const bomb = box.exec(['sh', '-c', 'b() { b & b & wait; }; b']).catch((error: unknown) => error)
    expect(await other.exec(['echo', 'not hit'])).toMatchObject({ code: 0, stdout: 'not hit\n' })
    const { observed } = await home.client().sandboxes.stats(box.id)
    expect(observed.processes ?? 0).toBeLessThanOrEqual(MAX_PIDS + 2)
    await box.delete()
    await bomb
  })

  it('a memory bomb ends at the limit of memory, and the sandbox says so', async () => {
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

  it('a full disk is the sandbox’s own, or is said not to be', async () => {
    const { home, outside } = scene()
    const box = await home.create(['--disk', '64m'])
    await expectToWork('everything', FILL, [join(outside, 'filled'), '128'])
    rmSync(join(outside, 'filled'), { force: true })
    const how = await tryIn(box, FILL, ['filled', '128'])
    if (box.body.enforced?.disk === 'filesystem') {
      expect(how).toBe('failed ENOSPC')
      // Full to the last byte, it still runs commands, and output goes on.
      await box.exec(['sh', '-c', 'cat /dev/zero > full'])
      expect(await box.exec(['seq', '100000'])).toMatchObject({ code: 0 })
      expect((await box.exec(['rm', 'full'])).code).toBe(0)
    } else expect(box.body.enforced?.disk).toBe('not-enforced')
    await box.delete()
  })

  it('file systems in memory have an end too', async () => {
    const { home, box } = scene()
    await expectToWork([], FILL, ['/tmp/filled', '300'])
    // Over a relay the socket lies in one more of them.
    for (const folder of ['/dev/shm', '/run', ...(home.line === 'relay' ? ['/run/craik'] : [])])
      expect(await tryIn(box, FILL, [`${folder}/filled`, '300']), folder).toBe('failed ENOSPC')
  })
}
