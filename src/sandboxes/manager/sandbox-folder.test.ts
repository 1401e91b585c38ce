import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { closeFolder, makeSandboxFolder, removeFolder } from './sandbox-folder.ts'

const ID = 'sbx_00000000000000000000000000'
let sandboxes: string
beforeEach(() => {
  sandboxes = mkdtempSync(join(tmpdir(), 'craik-folders-'))
})
afterEach(() => rmSync(sandboxes, { recursive: true, force: true }))

const modeOf = (path: string) => statSync(path).mode & 0o777

describe('the folder of a sandbox', () => {
  it('is private after its creation, and again after it was opened for the start', async () => {
    const folder = await makeSandboxFolder(sandboxes, ID)
    expect(modeOf(folder)).toBe(0o700)
    chmodSync(folder, 0o711)
    await closeFolder(sandboxes, ID)
    expect(modeOf(folder)).toBe(0o700)
    await removeFolder(sandboxes, ID)
    await removeFolder(sandboxes, ID)
  })

  it('is neither closed nor removed when its parent folder is a symbolic link', async () => {
    await makeSandboxFolder(sandboxes, ID)
    const link = join(sandboxes, 'link')
    symlinkSync(sandboxes, link)
    for (const attempt of [removeFolder(link, ID), closeFolder(link, ID)])
      await expect(attempt).rejects.toMatchObject({ code: 'key_exposed' })
    expect(modeOf(join(sandboxes, ID))).toBe(0o700)
  })

  it('is not created where something exists already', async () => {
    mkdirSync(join(sandboxes, ID))
    await expect(makeSandboxFolder(sandboxes, ID)).rejects.toMatchObject({ code: 'home_unwritable' })
  })

  it('is refused when a symbolic link replaced it, and the link’s target stays unchanged', async () => {
    const folder = await makeSandboxFolder(sandboxes, ID)
    renameSync(folder, join(sandboxes, 'moved'))
    chmodSync(join(sandboxes, 'moved'), 0o755)
    symlinkSync(join(sandboxes, 'moved'), folder)
    await expect(closeFolder(sandboxes, ID)).rejects.toMatchObject({ code: 'key_exposed' })
    expect(modeOf(join(sandboxes, 'moved'))).toBe(0o755)
  })

  if (process.getuid?.() === 0)
    it('is refused when it belongs to another user', async () => {
      const folder = await makeSandboxFolder(sandboxes, ID)
      chmodSync(folder, 0o755)
      chownSync(folder, 12_345, 12_345)
      await expect(closeFolder(sandboxes, ID)).rejects.toMatchObject({ code: 'key_exposed' })
      expect(modeOf(folder)).toBe(0o755)
    })
})
