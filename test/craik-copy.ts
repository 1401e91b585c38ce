/** A copy of what runs Craik, for users who cannot walk to the checkout. */
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { NODE, ROOT } from './craik.ts'

interface CraikCopy {
  readonly root: string
  readonly node: string
}

/** Whether everybody may walk to the folder and read what is in it. */
export function isOpenToAll(folder: string): boolean {
  if ((statSync(folder).mode & 0o005) !== 0o005) return false
  for (let above = dirname(folder); ; above = dirname(above)) {
    if ((statSync(above).mode & 0o001) === 0) return false
    if (above === dirname(above)) return true
  }
}

/** One for the whole run of the tests, made by the first that needs it. */
export function sharedCopy(): CraikCopy {
  const shared = join(process.env.CRAIK_TEST_RUN_FOLDER!, 'craik')
  if (!existsSync(shared)) {
    const own = `${shared}.${process.pid}`
    copyOfCraik(own)
    try {
      renameSync(own, shared)
    } catch (error) {
      // Another was faster.
      if (!existsSync(shared)) throw error
      rmSync(own, { recursive: true })
    }
  }
  return { root: shared, node: join(shared, 'node') }
}

/** The sources, what was built of them, and the packages that they import; and the Node that runs them. */
function copyOfCraik(folder: string): void {
  mkdirSync(folder, { mode: 0o755 })
  for (const name of ['src', 'image', 'build/sidecar', 'bin', 'package.json', ...packages(ROOT)]) {
    if (existsSync(join(ROOT, name))) cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  }
  cpSync(NODE, join(folder, 'node'), { dereference: true })
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
