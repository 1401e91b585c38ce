/** What was switched on about providers. */
export const providers = `
`
