/**
 * The hint when a sandbox cannot work on the folder itself. Callers that know the command line replace it with a more
 * exact one.
 */
export const COPY_INSTEAD = 'work on a copy: leave out --in-place'

/** The commands that recreate a sandbox, whichever command created it. */
export const RECREATE_COMMAND = 'craik rebuild   or  craik sandbox delete ID'
