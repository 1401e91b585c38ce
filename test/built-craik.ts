/** The Craik that tests run as a person would: the package that is published, made once for the whole run. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, renameSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { traceSupervisors } from './program-trace.ts'

const ROOT = resolve(import.meta.dirname, '..')

/** Before the first worker, after the run's folder was made; each project asks for it, and the first one makes it. */
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
  // Tests run as several users, whatever the one who made it shows to others.
  execFileSync('chmod', ['-R', 'a+rX', built])
}

/** Its folder, which everybody may read. */
export function builtFolder(): string {
  return join(process.env.CRAIK_TEST_RUN_FOLDER!, 'craik')
}

/** A Node that everybody may run: this one, or a copy when it lies where not everybody may walk to. */
export function nodeForAll(): string {
  const node = process.execPath
  if (isOpenToAll(dirname(node))) return node
  const shared = join(process.env.CRAIK_TEST_RUN_FOLDER!, 'node')
  if (!existsSync(shared)) {
    const own = `${shared}.${process.pid}`
    cpSync(node, own, { dereference: true })
    // Several may have made one, each of them whole.
    renameSync(own, shared)
  }
  return shared
}

/** Whether everybody may walk to the folder and read what is in it. */
function isOpenToAll(folder: string): boolean {
  if ((statSync(folder).mode & 0o005) !== 0o005) return false
  for (let above = dirname(folder); ; above = dirname(above)) {
    if ((statSync(above).mode & 0o001) === 0) return false
    if (above === dirname(above)) return true
  }
}
