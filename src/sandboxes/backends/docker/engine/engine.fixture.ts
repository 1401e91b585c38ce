/** A fake engine whose answers the test chooses. */
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { hostname, release, tmpdir } from 'node:os'
import { join } from 'node:path'

export interface FalseEngine extends AsyncDisposable {
  readonly address: NodeJS.ProcessEnv
}

/** The `info` answer of an engine on this machine. */
const INFO = {
  ID: 'ONE',
  Name: hostname(),
  ServerVersion: '28.5.2',
  OSType: 'linux',
  OperatingSystem: 'Debian GNU/Linux 12 (bookworm)',
  KernelVersion: release(),
  Architecture: 'x86_64',
  DockerRootDir: '/var/lib/docker',
  NCPU: 2,
  Runtimes: { runc: {} },
  SecurityOptions: ['name=seccomp,profile=builtin', 'name=cgroupns'],
  CgroupVersion: '2',
  CgroupDriver: 'systemd',
  MemoryLimit: true,
  PidsLimit: true,
  CpuCfsQuota: true,
}
const VERSION = { Version: '28.5.2', Components: [{ Name: 'runc', Version: '1.3.3' }] }

export async function falseEngine(answer: RequestListener): Promise<FalseEngine> {
  const folder = mkdtempSync(join(tmpdir(), 'craik-engine-'))
  const path = join(folder, 'engine.sock')
  const server = createServer(answer)
  await new Promise<void>((done) => server.listen(path, done))
  return {
    address: { CRAIK_ENGINE: `unix://${path}` },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      rmSync(folder, { recursive: true })
    },
  }
}

/** Answers identity requests. The caller answers all others. */
export function serveEngine(
  info: Readonly<Record<string, unknown>> = {},
  version: Readonly<Record<string, unknown>> = {},
  rest: RequestListener = (_, response) => void response.writeHead(404).end('{}'),
): Promise<FalseEngine> {
  return falseEngine((request, response) => {
    if (request.url === '/info') response.end(JSON.stringify({ ...INFO, ...info }))
    else if (request.url === '/version') response.end(JSON.stringify({ ...VERSION, ...version }))
    else rest(request, response)
  })
}
