/**
 * Builds the package that is published, in `dist/` or in the new folder that the argument names. Its JavaScript is
 * bundled, so that a command starts fast. It contains no Node runtime.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { rolldown } from 'rolldown'

const root = join(import.meta.dirname, '..')

/**
 * The engine's client needs these for SSH and for BuildKit sessions. Craik uses neither, and they contain native code
 * that cannot be bundled.
 */
const LEFT_OUT = ['ssh2', '@grpc/grpc-js', '@grpc/proto-loader', 'protobufjs']
const leftOut = {
  name: 'left-out',
  resolveId: (name: string) => (LEFT_OUT.includes(name) ? `\0left-out:${name}` : null),
  load: (id: string) => (id.startsWith('\0left-out:') ? 'module.exports = {}' : null),
}
const dist = resolve(process.argv[2] ?? join(root, 'dist'))
rmSync(dist, { recursive: true, force: true })
mkdirSync(dist)

const bundle = await rolldown({
  cwd: root,
  input: {
    main: 'src/main.ts',
    writer: 'src/writer.ts',
    'scan-body': 'src/gateway/models/scan-worker.ts',
    'refresh-login': 'src/accounts/refresh/main.ts',
    'read-opencode-database': 'src/transcripts/opencode/main.ts',
  },
  platform: 'node',
  // Cedar reads its WebAssembly from its own folder.
  external: [/^node:/, /^@cedar-policy\//],
  plugins: [leftOut],
})
await bundle.write({
  dir: join(dist, 'src'),
  format: 'cjs',
  entryFileNames: '[name].cjs',
  chunkFileNames: 'chunks/[name]-[hash].cjs',
})
await bundle.close()

for (const name of [
  'bin',
  'README.md',
  'LICENSE',
  'CHANGELOG.md',
  'src/policy/profiles',
  'docs/verify',
  'build/sidecar',
  'image',
]) {
  cpSync(join(root, name), join(dist, name), { recursive: true })
}
const { name, version, description, license, type, engines, bin, dependencies } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
)
const needed = Object.fromEntries(
  Object.entries(dependencies).filter(([key]) => key.startsWith('@cedar-policy/')),
)
const published = { name, version, description, license, type, engines, bin, dependencies: needed }
writeFileSync(join(dist, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
