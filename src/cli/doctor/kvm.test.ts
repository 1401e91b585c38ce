import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { kvmHealth } from './kvm.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'craik-kvm-'))
})
afterEach(() => rmSync(root, { recursive: true }))

/** Creates the files of a host that the check reads. */
function machine(files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
}

it('reports ok if the processor supports virtualization and the device opens', async () => {
  machine({ 'dev/kvm': '', 'proc/cpuinfo': 'flags\t\t: fpu vmx sse\n' })
  expect(await kvmHealth(root)).toMatchObject({ state: 'ok' })
})

it('does not accept an open device as proof', async () => {
  machine({ 'dev/kvm': '', 'proc/cpuinfo': 'flags\t\t: fpu vmx\n', 'sys/module/kvm_pvm/refcnt': '0' })
  expect(await kvmHealth(root)).toMatchObject({ state: 'none', detail: expect.stringContaining('PVM') })
})

it.runIf(process.arch === 'x64')('reports none if the device opens but cannot run guests', async () => {
  machine({ 'dev/kvm': '', 'proc/cpuinfo': 'flags\t\t: fpu sse\n' })
  expect(await kvmHealth(root)).toMatchObject({
    state: 'none',
    detail: expect.stringContaining('cannot run guests'),
  })
})

it('names the missing kernel module', async () => {
  machine({ 'proc/cpuinfo': 'flags\t\t: fpu svm\n' })
  expect(await kvmHealth(root)).toMatchObject({ state: 'none', fix: 'sudo modprobe kvm_amd' })
})

it('reports none, without a fix, if the processor does not support virtualization', async () => {
  const row = await kvmHealth(root)
  expect(row).toMatchObject({ state: 'none' })
  expect(row.fix).toBeUndefined()
})
