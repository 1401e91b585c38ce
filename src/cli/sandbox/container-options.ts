/** Builds the container options of a request from flags and defaults. A request for a new container omits nothing. */
import { basename, resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import { quoteText } from './amounts.ts'

export interface ContainerOptions {
  readonly from?: string
  readonly backend?: 'process' | 'docker'
  readonly image?: string
  readonly runtime?: 'runc' | 'runsc'
  readonly transport?: 'socket' | 'relay'
  /** The earlier name of `transport`. */
  readonly line?: 'socket' | 'relay'
  readonly network?: string
  readonly mount?: readonly string[]
}

interface Mount {
  readonly folder: string
  readonly at: string
  readonly mode: 'read_only'
}

interface TypedContainer {
  readonly image?: string
  readonly runtime?: 'runc' | 'runsc'
  readonly line?: 'socket' | 'relay'
}

interface Typed {
  network?: 'none'
  mounts?: Mount[]
  container?: TypedContainer
}

export type ContainerFlags =
  | (Typed & { readonly from: string; readonly backend?: 'process' | 'docker' })
  | (Typed & { readonly backend?: 'process' })
  | (Required<Typed> & { readonly backend: 'docker'; readonly container: { readonly image: string } })

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

export function containerOf(options: ContainerOptions): ContainerFlags {
  const { from, backend, image, runtime, network, mount } = options
  const line = options.transport ?? options.line
  if (network !== undefined && network !== 'none')
    throw new CraikError(
      'usage',
      `--network ${quoteText(network)} is not supported: sandboxes have no network`,
      {
        hint: 'remove --network, and allow hosts one by one:  craik egress allow HOST --sandbox ID',
      },
    )
  const container: TypedContainer = {
    ...(image !== undefined && { image }),
    ...(runtime !== undefined && { runtime }),
    ...(line !== undefined && { line }),
  }
  const mounts = mount?.map(parseMount)
  if (backend === 'docker' && from === undefined)
    return {
      backend,
      network: 'none',
      mounts: mounts ?? [],
      container: { ...container, image: image ?? 'craik' },
    }
  const typed: Typed = {
    ...(network === 'none' && { network }),
    ...(mounts && { mounts }),
    ...(Object.keys(container).length > 0 && { container }),
  }
  if (from !== undefined) return { ...typed, from, ...(backend !== undefined && { backend }) }
  return { ...typed, ...(backend === 'process' && { backend }) }
}

/** Parses `FOLDER`, which keeps its name in the container, or `FOLDER:NAME`. */
export function parseMount(text: string): Mount {
  const [, folder = '', typed] = /^(.*?)(?::([^/:]*))?$/s.exec(text)!
  if (folder === '')
    throw new CraikError('usage', '--mount is empty', { hint: 'mount this folder:  --mount .' })
  const path = resolve(folder)
  const name = typed ?? basename(path)
  if (!NAME.test(name))
    throw new CraikError(
      'usage',
      `--mount ${quoteText(text)}: ${quoteText(name)} is not a valid mount name`,
      {
        hint: 'choose a name of letters, digits and . _ -:  --mount FOLDER:NAME',
      },
    )
  return { folder: path, at: `/mnt/${name}`, mode: 'read_only' }
}
