/** Two sandboxes of one home and one user: neither sees anything of the other. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type LiveSandbox, USER_UID } from '../sandbox-home.ts'
import { python } from './attack.ts'
import { expectToWork, IS_ROOT, type Scenario, tryIn } from './scene.ts'

const READY_DEADLINE_MS = 60_000
const PORT_FILE = 'port'
/** Longer than all tests that use the offer need. They end it themselves. */
const OFFERED_SECONDS = 600

/**
 * Offers everything that another sandbox could find, until it is killed or its folder is removed. Then it removes what
 * would outlive it.
 */
const OFFER = `
  word, folder, key = args[0], args[1], int(args[2])
  os.makedirs(folder, exist_ok=True)
  open(folder + '/file', 'w').write(word)
  abstract = socket.socket(socket.AF_UNIX)
  abstract.bind('\\0' + word)
  abstract.listen()
  tcp = socket.create_server(('127.0.0.1', 0))
  memory = checked(libc.shmget(key, 4096, 0o1666))
  queue = checked(libc.mq_open(('/' + word).encode(), os.O_CREAT | os.O_RDWR, 0o666, None))
  open(folder + '/${PORT_FILE}', 'w').write(str(tcp.getsockname()[1]))
  open(folder + '/ready', 'w').close()
  until = time.time() + ${OFFERED_SECONDS}
  while os.path.exists(folder + '/ready') and time.time() < until: time.sleep(0.05)
  libc.shmctl(memory, 0, None)
  libc.mq_unlink(('/' + word).encode())`

const SEARCHES: Readonly<Record<string, { readonly program: string; readonly refused: RegExp }>> = {
  'a file': { program: "open(args[1] + '/file').read()", refused: /^failed ENOENT$/ },
  'an abstract socket': {
    program: "socket.socket(socket.AF_UNIX).connect('\\0' + args[0])",
    refused: /^failed ECONNREFUSED$/,
  },
  'a server on its loopback': {
    program: "socket.create_connection(('127.0.0.1', int(args[3])), 5)",
    refused: /^failed ECONNREFUSED$/,
  },
  'shared memory': { program: 'checked(libc.shmget(int(args[2]), 0, 0))', refused: /^failed ENOENT$/ },
  'a message queue': {
    program: "checked(libc.mq_open(('/' + args[0]).encode(), os.O_RDONLY))",
    refused: /^failed ENOENT$/,
  },
  'a process, its command line or environment': {
    program: `
  for name in filter(str.isdigit, os.listdir('/proc')):
      if int(name) == os.getpid(): continue
      try: text = open('/proc/%s/cmdline' % name).read()
      except OSError: continue
      if args[0] in text: return
  raise OSError(errno.ENOENT, 'not found')`,
    refused: /^failed ENOENT$/,
  },
  'its files by the root of another process': {
    program: `
  for name in filter(str.isdigit, os.listdir('/proc')):
      try: return open('/proc/%s/root%s/file' % (name, args[1])).read()
      except OSError: continue
  raise OSError(errno.ENOENT, 'not found')`,
    refused: /^failed ENOENT$/,
  },
}

export const neighbours: Scenario = (scene) => {
  const word = `neighbour-${randomBytes(8).toString('hex')}`
  const folder = `/tmp/${word}`
  const key = String(randomBytes(3).readUIntBE(0, 3) + 1)
  const known = [word, folder, key]
  let box: LiveSandbox
  let offered: Promise<unknown>
  let port: string

  beforeAll(async () => {
    box = await scene().home.create()
    offered = box.exec(python(OFFER, known), { timeout_ms: OFFERED_SECONDS * 1000 }).catch(() => {})
    const wait = `until [ -e ${folder}/ready ]; do sleep 0.05; done; cat ${folder}/${PORT_FILE}`
    port = (await box.exec(['sh', '-c', wait])).stdout
  })
  afterAll(async () => {
    await box?.delete()
    await offered
  })

  for (const [what, { program, refused }] of Object.entries(SEARCHES)) {
    it(`no program in the sandbox finds in another sandbox ${what}`, async () => {
      await using host = await offerOnHost()
      await expectToWork('everything', program, [host.word, host.folder, host.key, host.port])
      // The sandbox that offers them finds them all.
      expect(await tryIn(box, program, [...known, port])).toBe('succeeded')
      expect(await tryIn(scene().box, program, [...known, port])).toMatch(refused)
    })
  }

  async function offerOnHost() {
    const own = `neighbour-${randomBytes(8).toString('hex')}`
    const at = join(scene().outside, own)
    const hostKey = String(randomBytes(3).readUIntBE(0, 3) + 0x100_0000)
    const [program, ...args] = python(OFFER, [own, at, hostKey])
    const user = IS_ROOT ? { uid: USER_UID, gid: USER_UID } : {}
    const child = spawn(program!, args, { cwd: '/', stdio: 'ignore', ...user })
    const ended = once(child, 'exit')
    const until = performance.now() + READY_DEADLINE_MS
    while (!existsSync(join(at, 'ready')) && performance.now() < until) await sleep(20)
    return {
      word: own,
      folder: at,
      key: hostKey,
      port: readFileSync(join(at, PORT_FILE), 'utf8'),
      async [Symbol.asyncDispose]() {
        rmSync(join(at, 'ready'))
        await ended
      },
    }
  }
}
