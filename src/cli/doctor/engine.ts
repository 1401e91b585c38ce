/** Whether a container engine answers on this machine. It is asked on its socket; no program is run. */
import { request } from 'node:http'
import { join } from 'node:path'
import type { HealthRow } from './row.ts'

const DEADLINE_MS = 2_000
/** The answers have a few kilobytes. */
const MAX_ANSWER_BYTES = 256 * 1024

interface Version {
  readonly Version?: string
  readonly Components?: readonly { readonly Name?: string; readonly Version?: string }[]
}

interface Info {
  readonly CgroupVersion?: string
  readonly DefaultRuntime?: string
}

export async function engineHealth(environment: NodeJS.ProcessEnv): Promise<HealthRow> {
  const name = 'docker'
  const problems: string[] = []
  for (const socket of sockets(environment)) {
    try {
      const [version, info] = await Promise.all([
        ask<Version>(socket, '/version'),
        ask<Info>(socket, '/info').catch((): Info => ({})),
      ])
      return { name, version: text(version.Version), state: 'ok', detail: describe(version, info) }
    } catch (error) {
      problems.push((error as NodeJS.ErrnoException).code ?? 'no answer')
    }
  }
  if (problems.some((code) => code === 'EACCES'))
    return {
      name,
      state: 'warn',
      detail: 'its socket may not be opened by you (who may is as good as root)',
      fix: 'sudo usermod -aG docker "$USER"',
    }
  const broken = problems.find((code) => code !== 'ENOENT')
  if (broken !== undefined)
    return {
      name,
      state: 'warn',
      detail: `does not answer (${broken})`,
      fix: 'sudo systemctl start docker',
    }
  if (/^(tcp|ssh|https?):/.test(environment.DOCKER_HOST ?? ''))
    return { name, state: 'none', detail: 'a remote engine, which Craik does not use yet' }
  return { name, state: 'none', detail: 'no engine on this machine; the process sandbox needs none' }
}

/** Where an engine of this machine listens: as told, the system's, the user's own. */
function sockets(environment: NodeJS.ProcessEnv): string[] {
  const told = environment.DOCKER_HOST
  if (told !== undefined && told !== '')
    return told.startsWith('unix://') ? [told.slice('unix://'.length)] : []
  const own = environment.XDG_RUNTIME_DIR
  const home = environment.HOME
  return [
    '/var/run/docker.sock',
    ...(own ? [join(own, 'docker.sock')] : []),
    ...(home ? [join(home, '.docker/run/docker.sock')] : []),
  ]
}

function describe(version: Version, info: Info): string {
  const runtime = info.DefaultRuntime ?? 'runc'
  const found = version.Components?.find(({ Name }) => Name === runtime)?.Version
  const parts = ['local engine', found === undefined ? runtime : `${runtime} ${text(found)}`]
  if (info.CgroupVersion !== undefined) parts.push(`cgroup v${text(info.CgroupVersion)}`)
  return parts.join(', ')
}

/** What an engine says of itself, as a word. */
function text(value: unknown): string {
  return String(value ?? '').slice(0, 30)
}

function ask<T>(socketPath: string, path: string): Promise<T> {
  return new Promise((done, fail) => {
    const options = { socketPath, path, agent: false, signal: AbortSignal.timeout(DEADLINE_MS) }
    const asked = request(options, (answer) => {
      const chunks: Buffer[] = []
      let bytes = 0
      answer.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > MAX_ANSWER_BYTES) asked.destroy(new Error('too long an answer'))
        chunks.push(chunk)
      })
      answer.on('error', fail)
      answer.on('end', () => {
        try {
          if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`)
          done(JSON.parse(Buffer.concat(chunks).toString()) as T)
        } catch (error) {
          fail(error)
        }
      })
    })
    asked.on('error', fail)
    asked.end()
  })
}
