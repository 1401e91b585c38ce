/**
 * Checks whether this host can run virtual machines at full speed. An open `/dev/kvm` is no proof: under a paravirtual
 * KVM it opens but runs no ordinary guest.
 */
import { constants } from 'node:fs'
import { access, open, readFile } from 'node:fs/promises'
import type { HealthRow } from './row.ts'

const EMULATED = 'microVMs will be emulated'

export async function kvmHealth(root = ''): Promise<HealthRow> {
  const name = 'kvm'
  const opened = await openError(`${root}/dev/kvm`)
  const capable = await hasVirtualisation(root)
  if (opened === 'ENOENT') {
    const module = capable === 'svm' ? 'kvm_amd' : 'kvm_intel'
    return capable === undefined
      ? { name, state: 'none', detail: `no /dev/kvm, and no processor support: ${EMULATED}` }
      : { name, state: 'none', detail: `no /dev/kvm: ${EMULATED}`, fix: `sudo modprobe ${module}` }
  }
  if (await exists(`${root}/sys/module/kvm_pvm`))
    return { name, state: 'none', detail: `cannot run guests (PVM): ${EMULATED}` }
  const modules = await Promise.all(
    ['kvm_intel', 'kvm_amd'].map((module) => exists(`${root}/sys/module/${module}`)),
  )
  const runs = capable !== undefined || modules.includes(true)
  if (!runs && process.arch === 'x64')
    return { name, state: 'none', detail: `exists, but cannot run guests: ${EMULATED}` }
  if (opened === 'EACCES' || opened === 'EPERM')
    return { name, state: 'warn', detail: 'you may not open it', fix: 'sudo usermod -aG kvm "$USER"' }
  if (opened !== undefined)
    return { name, state: 'none', detail: `cannot be opened (${opened}): ${EMULATED}` }
  if (runs) return { name, state: 'ok', detail: 'opens' }
  return { name, state: 'warn', detail: 'opens; not tested with a guest' }
}

/** Returns why the file does not open, or undefined if it does. */
async function openError(path: string): Promise<string | undefined> {
  try {
    await using _ = await open(path, constants.O_RDWR | constants.O_NONBLOCK)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'unknown'
  }
}

async function hasVirtualisation(root: string): Promise<'vmx' | 'svm' | undefined> {
  const text = await readFile(`${root}/proc/cpuinfo`, 'utf8').catch(() => '')
  const flags = /^flags\s*:(.*)$/m.exec(text)?.[1]?.split(' ') ?? []
  if (flags.includes('vmx')) return 'vmx'
  return flags.includes('svm') ? 'svm' : undefined
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
