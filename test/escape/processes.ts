/** Attacks on other processes: the memory of the sidecar and the processes of the host. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { NODE } from '../craik.ts'
import { type SandboxHome, USER_UID } from '../sandbox-home.ts'
import { numberOf } from './attack.ts'
import { expectToWork, type Scenario, type Scene, tryIn } from './scene.ts'

/** Finds the sidecar or the relay by its command line, or uses the process id in the arguments. */
const TARGET = `
  def target():
      if args[0].isdigit(): return int(args[0])
      for name in filter(str.isdigit, os.listdir('/proc')):
          words = words_of(name)
          if words[:1] == ['/opt/craik/node'] and '/opt/craik/%s.mjs' % args[0] in words: return int(name)
      raise Exception('it is not there')
  pid = target()`

const PIDFD_OPEN = 434
const MEMORY_ATTACKS: Readonly<Record<string, string>> = {
  'traces it': `
  call(${numberOf('ptrace')}, 16, pid, 0, 0)
  os.waitpid(pid, 0x40000000)
  call(${numberOf('ptrace')}, 17, pid, 0, 0)`,
  'reads its memory by /proc': `
  start = int(open('/proc/%d/maps' % pid).readline().split('-')[0], 16)
  os.pread(os.open('/proc/%d/mem' % pid, os.O_RDONLY), 16, start)`,
  'opens its memory for writing': `
  os.close(os.open('/proc/%d/mem' % pid, os.O_RDWR))`,
  'reads its memory by process_vm_readv': `
  try: start = int(open('/proc/%d/maps' % pid).readline().split('-')[0], 16)
  except OSError: start = 0x400000
  own = ctypes.create_string_buffer(16)
  here = (ctypes.c_size_t * 2)(ctypes.addressof(own), 16)
  there = (ctypes.c_size_t * 2)(start, 16)
  call(${numberOf('process_vm_readv')}, pid, here, 1, there, 1, 0)`,
  'takes one of its descriptors': `
  handle = call(${PIDFD_OPEN}, pid, 0)
  os.close(call(${numberOf('pidfd_getfd')}, handle, 0, 0))`,
  'reads its environment': `
  open('/proc/%d/environ' % pid).read()`,
  'reads its program': `
  open('/proc/%d/exe' % pid, 'rb').read(1)`,
  'lists its descriptors': `
  os.listdir('/proc/%d/fd' % pid)`,
  'spares itself in its place when memory runs out': `
  open('/proc/%d/oom_score_adj' % pid, 'w').write('1000')`,
}

const KILL = 'os.kill(int(args[0]), signal.SIGKILL)'
const FIND = `
  for name in filter(str.isdigit, os.listdir('/proc')):
      for kind in ['cmdline', 'environ']:
          if int(name) == os.getpid(): continue
          try: text = open('/proc/%s/%s' % (name, kind), 'rb').read()
          except OSError: continue
          if args[0].encode() in text: return
  raise OSError(errno.ENOENT, 'not found')`
const DUMP_CORE = `
  import resource
  hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
  resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
  pid = os.fork()
  if pid == 0: os.abort()
  if not os.WCOREDUMP(os.waitpid(pid, 0)[1]): raise OSError(errno.EPERM, 'no core')`

/** Registers the attacks on one of Craik's programs in the sandbox. */
export function memoryAttacks(scene: () => Scene, target: 'sidecar' | 'relay'): void {
  for (const [what, program] of Object.entries(MEMORY_ATTACKS)) {
    it(`no program in the sandbox attacks the ${target}: ${what}`, async () => {
      const { home, box } = scene()
      await using victim = await startBystander(home, 'plain')
      await expectToWork('everything', TARGET + program, [String(victim.pid)])
      expect(await tryIn(box, TARGET + program, [target])).toMatch(/^failed (EPERM|EACCES)$/)
    })
  }
}

export const processes: Scenario = (scene) => {
  memoryAttacks(scene, 'sidecar')

  it('no program in the sandbox kills a process of the host', async () => {
    const { home, box } = scene()
    await using first = await startBystander(home, 'first')
    await using second = await startBystander(home, 'second')
    await expectToWork('everything', KILL, [String(first.pid)])
    expect(await first.ended).toBe('SIGKILL')
    expect(await tryIn(box, KILL, [String(second.pid)])).toBe('failed ESRCH')
    expect(second.child.exitCode ?? second.child.signalCode).toBeNull()
  })

  it('no program in the sandbox finds words of the host’s command lines or environments', async () => {
    const { home, box } = scene()
    const word = 'word-of-the-host'
    await using _ = await startBystander(home, word)
    // The argument is reversed, because the program would otherwise find the word in its own command line.
    const program = FIND.replaceAll('args[0]', 'args[0][::-1]')
    const reversed = [...word].reverse().join('')
    await expectToWork('everything', program, [reversed])
    expect(await tryIn(box, program, [reversed])).toBe('failed ENOENT')
    const path = [...home.home].reverse().join('')
    expect(await tryIn(box, program, [path])).toBe('failed ENOENT')
  })

  it('no program in the sandbox leaves a core dump or starts the host’s core dump handler', async () => {
    const { box, outside } = scene()
    await expectToWork('everything', DUMP_CORE, [], { cwd: outside })
    for (const name of readdirSync(outside)) if (name.startsWith('core')) rmSync(join(outside, name))
    expect(await tryIn(box, DUMP_CORE)).toBe('failed EPERM')
    expect((await box.exec(['sh', '-c', 'ls -A | grep -c ^core'])).stdout).toBe('0\n')
  })
}

/**
 * Starts a host process of an ordinary user, with a readable program, and with a word in its arguments and its
 * environment.
 */
async function startBystander(home: SandboxHome, word: string) {
  const user = process.getuid?.() === 0 ? { uid: USER_UID, gid: USER_UID } : {}
  const script = "process.stdout.write('ready'); setInterval(() => {}, 1000)"
  const child: ChildProcess = spawn(NODE, ['-e', script, word], {
    cwd: '/',
    env: { WORD: word, FOLDER: home.folder },
    stdio: ['ignore', 'pipe', 'ignore'],
    ...user,
  })
  const ended = new Promise((done) => child.once('exit', (_code, signal) => done(signal)))
  await once(child.stdout!, 'data')
  return {
    child,
    ended,
    pid: child.pid!,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
