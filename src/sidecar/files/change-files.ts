/** Moves, removes and creates files and folders. */
import { randomUUID } from 'node:crypto'
import { cp, lstat, mkdir, rename, rm, rmdir, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { RouteCall } from '../router.ts'
import { answerFor, flagOfBody, pathOfBody } from './request-path.ts'

export async function moveFile(call: RouteCall, workspace: string): Promise<void> {
  const body = await call.json()
  const from = pathOfBody(body, 'from', workspace)
  const to = pathOfBody(body, 'to', workspace)
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw answerFor(error, from)
    await moveAcross(from, to)
  }
  call.answer(200, {})
}

export async function remove(call: RouteCall, workspace: string): Promise<void> {
  const body = await call.json()
  const path = pathOfBody(body, 'path', workspace)
  try {
    if (flagOfBody(body, 'recursive')) await rm(path, { recursive: true })
    else if ((await lstat(path)).isDirectory()) await rmdir(path)
    else await unlink(path)
  } catch (error) {
    throw answerFor(error, path)
  }
  call.answer(200, {})
}

export async function makeFolder(call: RouteCall, workspace: string): Promise<void> {
  const body = await call.json()
  const path = pathOfBody(body, 'path', workspace)
  try {
    await mkdir(path, { recursive: flagOfBody(body, 'parents') })
  } catch (error) {
    throw answerFor(error, path)
  }
  call.answer(200, {})
}

/** Moves between two file systems: renames a complete copy into place, and only then removes the original. */
async function moveAcross(from: string, to: string): Promise<void> {
  const copy = join(dirname(to), `.craik-move-${randomUUID()}`)
  try {
    await cp(from, copy, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
    await rename(copy, to)
  } catch (error) {
    await rm(copy, { recursive: true, force: true })
    throw answerFor(error, to)
  }
  await rm(from, { recursive: true }).catch((error: unknown) => {
    throw answerFor(error, from)
  })
}
