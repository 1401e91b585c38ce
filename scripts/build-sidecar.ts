/**
 * Writes build/sidecar, the programs that run in sandboxes. It contains the sidecar and its relay, each bundled into
 * one file, the native part of terminals for this host, and a manifest. With `--check`, it writes nothing and fails
 * when the files differ from what the sources give.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { rolldown } from 'rolldown'
import { PROTOCOL_VERSION } from '../src/sidecar/protocol.ts'

const root = join(import.meta.dirname, '..')
const target = join(root, 'build/sidecar')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

const files = new Map<string, Buffer>([
  ['sidecar.mjs', await bundle('src/sidecar/main.ts')],
  ['relay.mjs', await bundle('src/sidecar/relay.ts')],
])
const pty = nativeTerminal()
if (pty) files.set('pty.node', pty)
else console.error(`no prebuilt terminal for ${process.platform}-${process.arch}: sandboxes have none here`)
const sha256 = Object.fromEntries([...files].map(([name, bytes]) => [name, digest(bytes)]))
const manifest = { version, protocol: PROTOCOL_VERSION, sha256 }
files.set('manifest.json', Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`))

if (process.argv.includes('--check')) {
  const stale = [...files]
    .filter(([name, bytes]) => !isThere(join(target, name), bytes))
    .map(([name]) => name)
  if (stale.length > 0) {
    console.error(`build/sidecar is not what its sources give (${stale.join(', ')}): run npm run prepare`)
    process.exitCode = 1
  }
} else {
  mkdirSync(target, { recursive: true })
  for (const [name, bytes] of files) put(join(target, name), bytes)
}

async function bundle(input: string): Promise<Buffer> {
  const bundle = await rolldown({
    cwd: root,
    input,
    platform: 'node',
    external: [/^node:/],
    transform: { define: { CRAIK_VERSION: JSON.stringify(version) } },
  })
  const { output } = await bundle.generate({ format: 'esm', minify: false })
  await bundle.close()
  if (output.length !== 1) throw new Error(`${input} is to be one file, and is ${output.length}`)
  return Buffer.from(output[0].code)
}

/** Reads the native part from the folder beside its JavaScript package, wherever npm installed that. */
function nativeTerminal(): Buffer | undefined {
  const ptyPackage = createRequire(createRequire(import.meta.url).resolve('@lydell/node-pty'))
  try {
    return readFileSync(ptyPackage.resolve(`@lydell/node-pty-${process.platform}-${process.arch}/pty.node`))
  } catch {
    return undefined
  }
}

/** Writes a temporary file and renames it, so that a sandbox that starts at this moment still gets a whole file. */
function put(path: string, bytes: Buffer): void {
  if (isThere(path, bytes)) return
  const temporary = `${path}.${process.pid}`
  writeFileSync(temporary, bytes)
  renameSync(temporary, path)
}

function isThere(path: string, bytes: Buffer): boolean {
  return existsSync(path) && readFileSync(path).equals(bytes)
}

function digest(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
