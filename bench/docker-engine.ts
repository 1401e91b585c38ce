/**
 * Starts a separate Docker engine for the bench, with an image of one program, as the reference for its measurements.
 */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, openSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)
/** The path of the Debian package. A program with that name elsewhere on the path may be anything. */
const DAEMON = '/usr/sbin/dockerd'
const CLIENT = '/usr/bin/docker'
const BUSYBOX = '/bin/busybox'
const INSTALL = 'apt-get install --no-install-recommends docker.io iptables busybox-static'
const IMAGE = 'craik-bench'
const START_MS = 30_000

export interface DockerEngine extends AsyncDisposable {
  /** The address in the form of `CRAIK_ENGINE`. */
  readonly address: string
  readonly version: string
  readonly image: string
  /** Runs `docker …` against this engine and waits until it exits. */
  docker(...args: readonly string[]): Promise<string>
}

/** The reason why no engine is available, as a row prints it. */
export interface NoDocker extends AsyncDisposable {
  readonly missing: string
}

export async function openDocker(folder: string): Promise<DockerEngine | NoDocker> {
  if (process.geteuid?.() !== 0) return withoutDocker('not measured: an engine of one’s own needs root')
  if (![DAEMON, CLIENT, BUSYBOX].every((path) => existsSync(path)))
    return withoutDocker(`not measured: no Docker here (\`${INSTALL}\`)`)
  const engine = await start(folder)
  if ('missing' in engine) return engine
  try {
    importImage(folder, engine.host)
    const docker = async (...args: readonly string[]) =>
      (await run(CLIENT, ['-H', engine.host, ...args], { env: { PATH: '/usr/bin:/bin', HOME: folder } }))
        .stdout
    const version = (await docker('version', '--format', '{{.Server.Version}}')).trim()
    const address = engine.host
    return { address, version, image: IMAGE, docker, [Symbol.asyncDispose]: () => stop(engine.daemon) }
  } catch (error) {
    await stop(engine.daemon)
    throw error
  }
}

function withoutDocker(missing: string): NoDocker {
  return { missing, async [Symbol.asyncDispose]() {} }
}

interface Started {
  readonly daemon: ChildProcess
  readonly host: string
}

async function start(folder: string): Promise<Started | NoDocker> {
  const socket = join(folder, 'docker.sock')
  const log = openSync(join(folder, 'dockerd.log'), 'w')
  const daemon = spawn(
    DAEMON,
    [
      '--data-root',
      join(folder, 'data'),
      '--exec-root',
      join(folder, 'exec'),
      '-H',
      `unix://${socket}`,
      '-p',
      join(folder, 'docker.pid'),
      '--bridge',
      'none',
      '--iptables=false',
    ],
    { stdio: ['ignore', log, log], env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } },
  )
  const host = `unix://${socket}`
  const until = performance.now() + START_MS
  while (daemon.exitCode === null && performance.now() < until) {
    const requested = await run(CLIENT, ['-H', host, 'version'], { env: {} }).catch(() => undefined)
    if (requested !== undefined) return { daemon, host }
    await sleep(100)
  }
  await stop(daemon)
  return withoutDocker('not measured: the Docker engine does not start here')
}

async function stop(daemon: ChildProcess): Promise<void> {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return
  const exited = once(daemon, 'exit')
  daemon.kill('SIGTERM')
  await exited
}

function importImage(folder: string, host: string): void {
  const root = join(folder, 'image')
  mkdirSync(join(root, 'bin'), { recursive: true })
  copyFileSync(BUSYBOX, join(root, 'bin/busybox'))
  for (const name of ['sh', 'true', 'sleep']) symlinkSync('busybox', join(root, 'bin', name))
  const tar = spawnSync('tar', ['-C', root, '-c', '.'], { maxBuffer: 64 * 1024 ** 2 })
  const { status, stderr } = spawnSync(CLIENT, ['-H', host, 'import', '-', IMAGE], { input: tar.stdout })
  if (status !== 0) throw new Error(`docker import exited ${status}: ${stderr}`)
}
