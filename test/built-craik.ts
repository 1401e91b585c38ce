/** Builds the Craik that tests run like a user: the published package, built once per run. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, renameSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { traceSupervisors } from './program-trace.ts'

const ROOT = resolve(import.meta.dirname, '..')

/**
 * Runs before the first worker, after the run's folder was created. Every project calls it, and only the first call
 * builds.
 */
export default function setup(): void {
  const built = builtFolder()
  if (existsSync(built)) return
  execFileSync(process.execPath, [join(ROOT, 'scripts/build.ts'), built], { cwd: ROOT })
  const { dependencies } = JSON.parse(readFileSync(join(built, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  for (const name of Object.keys(dependencies)) {
    const path = join('node_modules', name)
    cpSync(join(ROOT, path), join(built, path), { recursive: true })
  }
  if (process.env.CRAIK_TEST_TRACE)
    traceSupervisors(join(built, 'src/main.cjs'), process.env.CRAIK_TEST_TRACE)
  // Tests run as several users, so the files must be readable whatever the umask of the builder is.
  execFileSync('chmod', ['-R', 'a+rX', built])
}

/** Returns the folder of the package, which every user can read. */
export function builtFolder(): string {
  return join(process.env.CRAIK_TEST_RUN_FOLDER!, 'craik')
}

/** Returns a Node that every user can run: this one, or a copy when some users cannot reach its folder. */
export function nodeForAll(): string {
  const node = process.execPath
  if (isOpenToAll(dirname(node))) return node
  const shared = join(process.env.CRAIK_TEST_RUN_FOLDER!, 'node')
  if (!existsSync(shared)) {
    const own = `${shared}.${process.pid}`
    cpSync(node, own, { dereference: true })
    // Several processes may have made a copy. Each copy is complete.
    renameSync(own, shared)
  }
  return shared
}

/** Returns whether every user can reach the folder and read its files. */
function isOpenToAll(folder: string): boolean {
  if ((statSync(folder).mode & 0o005) !== 0o005) return false
  for (let above = dirname(folder); ; above = dirname(above)) {
    if ((statSync(above).mode & 0o001) === 0) return false
    if (above === dirname(above)) return true
  }
}
