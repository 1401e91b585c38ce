/** Makes `dist/`, the package that is published: compiled JavaScript, no runtime of its own. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')
rmSync(dist, { recursive: true, force: true })
mkdirSync(dist)
execFileSync(join(root, 'node_modules/.bin/tsc'), ['--project', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
})
for (const name of ['bin', 'README.md', 'LICENSE', 'CHANGELOG.md', 'src/policy/profiles']) {
  cpSync(join(root, name), join(dist, name), { recursive: true })
}

const { name, version, description, license, type, engines, bin, dependencies } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
)
const published = { name, version, description, license, type, engines, bin, dependencies }
writeFileSync(join(dist, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
