/**
 * Runs npm and pip in a sandbox before and after a grant. A server of the tests has the names `registry.npmjs.org` and
 * `pypi.org`. Prints the results.
 */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { shareHarnesses } from '../harness-image.ts'
import { SandboxHome } from '../sandbox-home.ts'
import { selfSigned } from '../wire/certificate.ts'
import { startNameServer } from './name-server.ts'
import { PACKAGE_HOSTS, packageServers } from './package-servers.ts'
import { PUBLIC } from './world.ts'

export interface PackagesReport {
  readonly id: string
  /** The result of each command. */
  readonly before: Readonly<Record<string, string>>
  readonly after: Readonly<Record<string, string>>
  /** The requests that the servers received before the grant. */
  readonly seenBefore: readonly string[]
  readonly verified: number | null
}

async function main(backend: 'process' | 'docker'): Promise<PackagesReport> {
  const certificate = selfSigned(['127.0.0.1'], [...PACKAGE_HOSTS])
  const seen: string[] = []
  const serve = await packageServers()
  const names = await startNameServer(Object.fromEntries(PACKAGE_HOSTS.map((host) => [host, [[PUBLIC]]])))
  const server = createServer({ ...certificate }, (request, response) => {
    seen.push(`${request.headers.host} ${request.url}`)
    serve(request, response)
  })
  await new Promise<void>((listening) => server.listen(443, PUBLIC, listening))
  // An engine runs outside of this namespace and does not see what root mounts here.
  const identity = backend === 'docker' ? 'user' : 'root'
  await using home = await SandboxHome.open({ identity, backend })
  if (backend === 'process') await shareHarnesses(home.home, [])
  const workspace = home.workspace('project')
  writeFileSync(join(workspace, 'authority.pem'), certificate.cert)
  const box = await home.create([
    '--workspace',
    workspace,
    '--credentials',
    'none',
    ...(backend === 'process' ? ['--harness', 'npm'] : []),
  ])
  // Every sandbox trusts the authorities that sign the certificates of public registries. This server has its own
  // certificate.
  const authority = '/workspace/home/project/authority.pem'
  const env = { NODE_EXTRA_CA_CERTS: authority, PIP_CERT: authority }
  const tool = async (script: string) => {
    const { code, stdout, stderr } = await box.exec(['sh', '-c', script], { env })
    return code === 0 ? stdout.trim() : `failed ${code}: ${(stdout + stderr).slice(-1500)}`
  }
  const before = {
    npm: await tool('npm i -g left-pad'),
    pip: await tool('pip install --retries 1 leftpad'),
  }
  const seenBefore = [...seen]
  for (const preset of ['npm', 'pypi']) {
    const { code, stderr } = await home.run(['egress', 'allow', '--preset', preset, '--sandbox', box.id])
    if (code !== 0) throw new Error(stderr)
  }
  const after = {
    'npm i -g': await tool('npm i -g left-pad >&2 && command -v left-pad && left-pad'),
    'npm install': await tool("npm install left-pad >&2 && node -p \"require('left-pad')('x', 3)\""),
    npx: await tool('cd /tmp && npx --yes --package=left-pad@1.3.0 left-pad'),
    'pip install': await tool('pip install -q leftpad >&2 && command -v left-pad-py && left-pad-py'),
    'pip in a venv': await tool(
      'python3 -m venv --system-site-packages ~/v && ~/v/bin/python -m pip install -q --force-reinstall leftpad >&2 && ~/v/bin/left-pad-py',
    ),
    'where it is': await tool(
      'test -d ~/.cache/npm && test ! -e ~/.npm && ls ~/.local/lib/python3*/site-packages | grep -x leftpad',
    ),
  }
  const { code: verified } = await home.run(['receipts', 'verify', '--replay'])
  server.closeAllConnections()
  server.close()
  names.close()
  return { id: box.id, before, after, seenBefore, verified }
}

if (import.meta.main)
  process.stdout.write(JSON.stringify(await main(process.argv[3] as 'process' | 'docker')))
