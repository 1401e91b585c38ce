/** Reads the engine's address from the environment, or lists where engines usually listen. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DockerOptions } from 'dockerode'
import { CraikError } from '../../../../errors.ts'

export interface EngineAddress {
  /** The address as text for people, without parts that could be secret. */
  readonly text: string
  /** The path of a socket on this machine, if the address is one. */
  readonly socket: string | undefined
  readonly options: DockerOptions
}

/** The options that the engine's client would otherwise read from the environment itself. */
const NOTHING: DockerOptions = {
  host: undefined,
  port: undefined,
  ca: undefined,
  cert: undefined,
  key: undefined,
  username: undefined,
  protocol: 'http',
  socketPath: undefined,
} as DockerOptions

/** Returns the address that the environment names. Craik then tries no other one. */
export function readEngineAddress(environment: NodeJS.ProcessEnv): EngineAddress | undefined {
  const name = environment.CRAIK_ENGINE ? 'CRAIK_ENGINE' : 'DOCKER_HOST'
  const value = environment[name]
  return value ? parseAddress(name, value, environment) : undefined
}

/** Returns the default addresses of engines: the machine's, this user's, Podman's and Docker Desktop's. */
export function usualAddresses(environment: NodeJS.ProcessEnv): EngineAddress[] {
  const { XDG_RUNTIME_DIR: runtime, HOME: home } = environment
  return [
    '/var/run/docker.sock',
    ...(runtime ? [join(runtime, 'docker.sock'), join(runtime, 'podman/podman.sock')] : []),
    '/run/podman/podman.sock',
    ...(home ? [join(home, '.docker/run/docker.sock')] : []),
  ].map(socketAddress)
}

function socketAddress(path: string): EngineAddress {
  return { text: `unix://${path}`, socket: path, options: { ...NOTHING, socketPath: path } }
}

function parseAddress(name: string, value: string, environment: NodeJS.ProcessEnv): EngineAddress {
  if (value.startsWith('/')) return socketAddress(value)
  if (value.startsWith('unix://')) {
    const path = value.slice('unix://'.length)
    if (path.startsWith('/')) return socketAddress(path)
    throw refusal(name, 'must contain an absolute path')
  }
  const url = URL.parse(value)
  if (url?.protocol === 'ssh:') {
    throw refusal(
      name,
      'is an SSH address, which is not supported',
      `forward its socket:  ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST  and set ${name}=unix:///tmp/engine.sock`,
    )
  }
  if (url === null || !['tcp:', 'http:', 'https:'].includes(url.protocol) || url.hostname === '')
    throw refusal(name, 'must be unix://PATH or tcp://HOST:PORT')
  if (url.username || url.password || url.search || url.hash || !['', '/'].includes(url.pathname))
    throw refusal(name, 'must contain only a host and a port')
  return tcpAddress(name, url, environment)
}

/**
 * All data of the boundary passes through this connection. It must be encrypted with an authenticated engine, or stay
 * on this machine.
 */
function tcpAddress(name: string, url: URL, environment: NodeJS.ProcessEnv): EngineAddress {
  const isTls = url.protocol === 'https:' || Boolean(environment.DOCKER_TLS_VERIFY)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const isOwn = host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
  if (!isTls && !isOwn) {
    throw refusal(
      name,
      'would connect to another machine without TLS',
      'set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH to the folder with ca.pem, cert.pem and key.pem',
    )
  }
  const port = url.port || (isTls ? '2376' : '2375')
  return {
    text: `tcp://${url.hostname}:${port}`,
    socket: undefined,
    options: {
      ...NOTHING,
      host,
      port: Number(port),
      protocol: isTls ? 'https' : 'http',
      ...(isTls && readCertificates(environment)),
    },
  }
}

function readCertificates(environment: NodeJS.ProcessEnv): Pick<DockerOptions, 'ca' | 'cert' | 'key'> {
  const folder = environment.DOCKER_CERT_PATH || join(environment.HOME ?? '/', '.docker')
  const read = (file: string) => readFileSync(join(folder, file), 'utf8')
  try {
    return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') }
  } catch (cause) {
    throw new CraikError('unavailable', 'cannot read the certificates for the engine', {
      hint: 'set DOCKER_CERT_PATH to the folder with ca.pem, cert.pem and key.pem',
      cause,
    })
  }
}

function refusal(name: string, why: string, hint = `set ${name}=unix:///var/run/docker.sock`): CraikError {
  return new CraikError('usage', `${name} ${why}`, { hint })
}
