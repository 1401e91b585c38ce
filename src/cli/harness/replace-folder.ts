/** Replaces a folder in a sandbox with a complete one. */
import type { ApiClient } from '../../sdk/client.ts'
import { statInside } from '../sandbox/copy-in.ts'

export interface Replacement {
  readonly target: string
  /** The complete folder. It gets the name of the target. */
  readonly coming: string
  /** The temporary name of the previous folder, which is removed last. */
  readonly going: string
}

/** Replaces the target or, if that fails, leaves it as it was. In both cases the temporary names are free again. */
export async function replaceFolder(
  client: ApiClient,
  sandbox: string,
  { target, coming, going }: Replacement,
  signal: AbortSignal,
): Promise<void> {
  const { files } = client
  let hadPrevious = false
  try {
    hadPrevious = (await statInside(client, sandbox, target, signal)) !== undefined
    if (hadPrevious) await files.move(sandbox, target, going, { signal })
    await files.move(sandbox, coming, target, { signal })
  } catch (error) {
    // This does not pass the signal, because its abort may be the cause of the failure.
    await files.remove(sandbox, coming, { recursive: true }).catch(() => {})
    if (hadPrevious) await restorePrevious(client, sandbox, { target, going }).catch(() => {})
    throw error
  }
  if (hadPrevious) await files.remove(sandbox, going, { recursive: true })
}

/** The request that failed may have been carried out, so this looks which folder has the name. */
async function restorePrevious(
  client: ApiClient,
  sandbox: string,
  { target, going }: Pick<Replacement, 'target' | 'going'>,
): Promise<void> {
  const found = await statInside(client, sandbox, target, new AbortController().signal)
  if (found === undefined) await client.files.move(sandbox, going, target)
  else await client.files.remove(sandbox, going, { recursive: true })
}
