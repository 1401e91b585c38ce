/** A copy of what runs Craik, for users who cannot walk to the checkout. */
import { cpSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { NODE, ROOT } from './craik.ts'

/** Whether everybody may walk to the folder and read what is in it. */
export function isOpenToAll(folder: string): boolean {
  if ((statSync(folder).mode & 0o005) !== 0o005) return false
  for (let above = dirname(folder); ; above = dirname(above)) {
    if ((statSync(above).mode & 0o001) === 0) return false
    if (above === dirname(above)) return true
  }
}

/** The sources, what was built of them, and the packages that they import; and the Node that runs them. */
export function copyOfCraik(folder: string): { readonly root: string; readonly node: string } {
  mkdirSync(folder, { mode: 0o755 })
  for (const name of ['src', 'build', 'bin', 'package.json', ...packages(ROOT)]) {
    if (existsSync(join(ROOT, name))) cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  }
  const node = join(folder, 'node')
  cpSync(NODE, node, { dereference: true })
  return { root: folder, node }
}

/** Folders of all packages that are needed to run, those that others need included. */
function packages(folder: string, found = new Set<string>()): string[] {
  const { dependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly dependencies?: Readonly<Record<string, string>>
  }
  for (const name of Object.keys(dependencies)) {
    const path = join('node_modules', name)
    if (found.has(path) || !existsSync(join(ROOT, path))) continue
    found.add(path)
    packages(join(ROOT, path), found)
  }
  return [...found]
}
